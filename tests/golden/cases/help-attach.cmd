allocsnap attach --help
