allocsnap show hostile.snap --json
