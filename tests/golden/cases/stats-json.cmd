allocsnap stats new.snap --json
