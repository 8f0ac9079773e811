allocsnap diff sampled-old.snap sampled.snap --sort shrink --no-gap-blocks
