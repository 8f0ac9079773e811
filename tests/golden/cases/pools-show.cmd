allocsnap show pools.snap
