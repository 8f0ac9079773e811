allocsnap stats sampled-old.snap -f folded; allocsnap diff sampled-old.snap sampled.snap -f folded
