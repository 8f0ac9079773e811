allocsnap stats python.snap
