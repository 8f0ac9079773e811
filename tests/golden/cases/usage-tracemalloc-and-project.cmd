allocsnap stats new.snap --tracemalloc --project src
