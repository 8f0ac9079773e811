allocsnap stats --top ten new.snap
