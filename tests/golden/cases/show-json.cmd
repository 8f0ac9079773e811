allocsnap show new.snap --json
