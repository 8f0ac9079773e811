allocsnap diff own-samples-old.snap own-samples.snap
