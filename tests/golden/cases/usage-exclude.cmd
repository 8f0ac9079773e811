allocsnap diff --exclude domain=all old.snap new.snap
