allocsnap stats cxx.snap -g function
