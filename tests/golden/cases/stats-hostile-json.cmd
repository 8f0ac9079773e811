allocsnap stats hostile.snap --json
