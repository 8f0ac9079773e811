allocsnap show --json rss.snap
