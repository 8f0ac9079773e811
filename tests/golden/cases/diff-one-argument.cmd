allocsnap diff old.snap
