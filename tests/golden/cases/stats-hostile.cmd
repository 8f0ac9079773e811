allocsnap stats hostile.snap -g traceback
