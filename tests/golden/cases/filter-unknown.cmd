allocsnap stats mixed.snap --include '<unknown>'
