allocsnap fleet leaks --help
