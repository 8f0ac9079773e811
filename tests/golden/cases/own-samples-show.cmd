allocsnap show own-samples.snap; allocsnap show own-samples-old.snap
