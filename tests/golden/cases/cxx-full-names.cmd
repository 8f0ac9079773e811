allocsnap stats cxx.snap -g traceback -n 1 -v; allocsnap stats cxx.snap -g function --full-names
