allocsnap leaks leaks-ended; allocsnap leaks leaks-ended --json | grep -c '"rss"'; true
