allocsnap stats cxx.snap -c -g function
