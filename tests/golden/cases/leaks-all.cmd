allocsnap leaks leaks --all
