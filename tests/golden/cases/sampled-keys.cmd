for key in domain size-class age thread; do allocsnap stats sampled-old.snap -g $key; done
