allocsnap run --help
