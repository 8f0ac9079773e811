allocsnap stats new.snap --cumulative --group-by=filename --top 2
