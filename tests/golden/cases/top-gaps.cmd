allocsnap top gaps.snap
