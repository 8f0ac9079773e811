allocsnap diff sampled-old.snap sampled-gaps.snap --sort shrink --no-gap-blocks
