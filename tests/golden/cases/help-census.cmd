allocsnap census --help
