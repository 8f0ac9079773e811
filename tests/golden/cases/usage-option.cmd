allocsnap stats --foo new.snap
