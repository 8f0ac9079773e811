allocsnap stats --help
