allocsnap convert rss.snap -o part.snap --min-size 1; allocsnap show part.snap
