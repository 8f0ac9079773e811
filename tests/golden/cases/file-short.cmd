allocsnap show short.snap
