allocsnap stats new.snap --min-age 30s
