allocsnap --help
