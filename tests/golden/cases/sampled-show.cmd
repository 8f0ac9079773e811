allocsnap show sampled.snap; allocsnap show sampled.snap --json
