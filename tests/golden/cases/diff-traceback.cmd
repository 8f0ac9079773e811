allocsnap diff old.snap new.snap -g traceback
