allocsnap fleet --help
