allocsnap stats mixed.snap -g size-class
