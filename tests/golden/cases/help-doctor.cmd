allocsnap doctor --help
