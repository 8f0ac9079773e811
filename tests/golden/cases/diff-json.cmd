allocsnap diff old.snap new.snap --json --top 2
