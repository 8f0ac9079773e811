allocsnap stats new.snap
