allocsnap stats cxx.snap -g traceback -n 2
