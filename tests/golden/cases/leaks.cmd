allocsnap leaks leaks
