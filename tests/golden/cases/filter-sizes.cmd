allocsnap stats mixed.snap --min-size 4K --max-size 64KiB; allocsnap stats mixed.snap --min-size 1MiB; allocsnap stats mixed.snap --max-size 7; allocsnap stats mixed.snap --max-size 0
