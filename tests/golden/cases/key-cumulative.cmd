allocsnap stats mixed.snap -g function --cumulative; allocsnap stats mixed.snap -g object -c
