allocsnap convert --help
