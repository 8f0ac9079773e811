allocsnap stats text.snap
