allocsnap diff old.snap many.snap --top 2
