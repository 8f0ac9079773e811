allocsnap show old.snap
