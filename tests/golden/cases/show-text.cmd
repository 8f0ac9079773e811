allocsnap show new.snap
