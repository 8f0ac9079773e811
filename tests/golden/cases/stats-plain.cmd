allocsnap stats plain.snap
