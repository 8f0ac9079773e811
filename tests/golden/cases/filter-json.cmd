allocsnap stats mixed.snap --include 'src/item*' --json
