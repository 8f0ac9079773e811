allocsnap diff new.snap other.snap -g traceback --top 1
