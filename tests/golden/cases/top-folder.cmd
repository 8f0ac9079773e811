allocsnap top leaks --batch
