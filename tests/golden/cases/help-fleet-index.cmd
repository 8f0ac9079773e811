allocsnap fleet index --help
