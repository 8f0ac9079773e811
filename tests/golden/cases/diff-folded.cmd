allocsnap diff old.snap new.snap -f folded -g traceback
