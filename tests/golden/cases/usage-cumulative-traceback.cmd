allocsnap diff --cumulative -g traceback old.snap new.snap
