allocsnap stats mixed.snap --keep-wrappers --include 'function=malloc'; allocsnap stats mixed.snap --include 'function=malloc'
