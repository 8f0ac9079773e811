allocsnap stats mixed.snap --include 'function=g_*' --include function=pool_grow
