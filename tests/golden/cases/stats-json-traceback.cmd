allocsnap stats new.snap --format json --group-by traceback
