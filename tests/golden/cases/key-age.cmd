allocsnap stats mixed.snap -g age
