allocsnap show rss-hostile.snap
