allocsnap show new.snap --format folded
