allocsnap leaks --help
