allocsnap stats many.snap --top 3
