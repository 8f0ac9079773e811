allocsnap stats mixed.snap --include 'src/*' --exclude src/pool,arena.c --min-size 101 -g traceback
