allocsnap symbolize --help
