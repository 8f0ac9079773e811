allocsnap stats sampled.snap --json
