allocsnap diff new.snap other.snap --top 1 --json
