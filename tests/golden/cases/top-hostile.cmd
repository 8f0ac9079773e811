allocsnap top hostile.snap
