allocsnap stats hostile.snap -f csv -g traceback | cut -c 1-200
