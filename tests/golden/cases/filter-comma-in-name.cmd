allocsnap stats mixed.snap --include src/pool,arena.c; allocsnap stats mixed.snap --include file=src/pool,arena.c
