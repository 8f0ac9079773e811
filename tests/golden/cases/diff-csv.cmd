allocsnap diff old.snap new.snap --format csv; allocsnap diff sampled-old.snap sampled.snap --format csv --top 2
