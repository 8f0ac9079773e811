allocsnap eject --help
