allocsnap stats
