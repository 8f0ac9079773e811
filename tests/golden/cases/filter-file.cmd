allocsnap stats mixed.snap --include 'src/*'
