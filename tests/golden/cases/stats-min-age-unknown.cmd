allocsnap stats many.snap --min-age 1s
