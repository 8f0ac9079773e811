allocsnap stats --min-age=old new.snap
