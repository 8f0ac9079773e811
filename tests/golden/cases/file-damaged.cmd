allocsnap stats damaged.snap
