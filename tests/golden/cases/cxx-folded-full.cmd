allocsnap stats cxx.snap -f folded -v
