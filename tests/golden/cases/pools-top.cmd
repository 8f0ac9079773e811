allocsnap top pools.snap
