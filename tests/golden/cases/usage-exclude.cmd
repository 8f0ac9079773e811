allocsnap diff --exclude domain=4294967296 old.snap new.snap
