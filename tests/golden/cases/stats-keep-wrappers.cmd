allocsnap stats new.snap -g traceback --keep-wrappers -n 1
