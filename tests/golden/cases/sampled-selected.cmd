allocsnap stats sampled.snap --min-size 100 --include 'src/*'; allocsnap stats sampled.snap --no-gap-blocks
