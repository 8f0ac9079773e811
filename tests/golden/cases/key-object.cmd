allocsnap stats mixed.snap -g object
