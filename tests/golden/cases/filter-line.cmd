allocsnap stats mixed.snap --include src/item.c:12; allocsnap stats mixed.snap --include src/item.c:13
