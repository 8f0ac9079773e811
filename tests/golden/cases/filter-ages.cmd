allocsnap stats mixed.snap --min-age 10s --max-age 30s; allocsnap stats mixed.snap --max-age 1s
