allocsnap stats new.snap -g traceback --format folded
