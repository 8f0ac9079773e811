allocsnap record --help
