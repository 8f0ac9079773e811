allocsnap stats sampled-gaps.snap --min-size 100 --include 'src/*'; allocsnap stats sampled-gaps.snap --no-gap-blocks
