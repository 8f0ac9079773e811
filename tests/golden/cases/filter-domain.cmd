allocsnap stats mixed.snap --include domain=1; allocsnap stats mixed.snap --exclude domain=1 --top 1
