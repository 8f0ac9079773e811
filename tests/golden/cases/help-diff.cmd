allocsnap diff --help
