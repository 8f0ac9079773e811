allocsnap diff old.snap new.snap --format markdown; allocsnap stats cxx.snap -f markdown -g traceback --top 2; allocsnap stats hostile.snap -f markdown | cut -c 1-200
