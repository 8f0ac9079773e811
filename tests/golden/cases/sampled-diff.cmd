allocsnap diff sampled-old.snap sampled.snap
