allocsnap stats mixed.snap -g domain
