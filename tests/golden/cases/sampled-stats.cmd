allocsnap stats sampled.snap
