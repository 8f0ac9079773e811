allocsnap stats cxx.snap -j -n 2
