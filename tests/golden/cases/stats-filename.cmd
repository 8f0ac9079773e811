allocsnap stats new.snap --group-by filename
