allocsnap stats mixed.snap -g function
