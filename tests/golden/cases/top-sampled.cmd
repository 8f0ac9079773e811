allocsnap top sampled.snap
