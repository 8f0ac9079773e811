allocsnap stats many.snap --top 0
