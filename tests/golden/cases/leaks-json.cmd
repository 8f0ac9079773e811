allocsnap leaks leaks --json
