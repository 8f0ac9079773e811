allocsnap stats python.snap -g filename
