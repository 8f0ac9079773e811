allocsnap stats old.snap new.snap
