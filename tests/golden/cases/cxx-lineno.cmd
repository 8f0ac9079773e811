allocsnap stats cxx.snap
