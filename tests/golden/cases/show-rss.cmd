allocsnap show rss.snap
