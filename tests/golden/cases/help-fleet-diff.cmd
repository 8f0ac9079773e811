allocsnap fleet diff --help
