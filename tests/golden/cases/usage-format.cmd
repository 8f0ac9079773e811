allocsnap stats --format xml new.snap
