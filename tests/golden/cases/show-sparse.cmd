allocsnap show sparse.snap
