allocsnap top --help
