allocsnap stats sampled.snap --cumulative --top 2
