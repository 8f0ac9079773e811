allocsnap stats -g traceback --oldest-first new.snap
