allocsnap stats --skip x --keep-wrappers new.snap
