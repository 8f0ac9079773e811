allocsnap stats sampled.snap --group-by traceback --top 1
