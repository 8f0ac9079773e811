allocsnap stats --group-by line new.snap
