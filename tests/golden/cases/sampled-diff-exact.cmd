allocsnap diff new.snap sampled.snap --top 3; allocsnap diff sampled.snap new.snap --top 2 --json
