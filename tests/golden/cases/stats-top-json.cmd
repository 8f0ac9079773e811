allocsnap stats many.snap --json --top=1
