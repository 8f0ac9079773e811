allocsnap stats mixed.snap -g process
