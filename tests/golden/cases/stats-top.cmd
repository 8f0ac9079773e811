allocsnap stats many.snap
