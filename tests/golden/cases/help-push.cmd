allocsnap push --help
