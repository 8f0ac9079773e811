allocsnap show later.snap
