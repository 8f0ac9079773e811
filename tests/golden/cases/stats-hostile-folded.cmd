allocsnap stats hostile.snap -g traceback -f folded
