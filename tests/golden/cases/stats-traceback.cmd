allocsnap stats -g traceback new.snap
