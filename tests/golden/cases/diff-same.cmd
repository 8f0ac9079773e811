allocsnap diff new.snap new.snap --top 1
