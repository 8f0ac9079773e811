allocsnap stats cxx.snap --tracemalloc -g traceback -n 1; allocsnap stats cxx.snap --tracemalloc
