allocsnap stats many.snap --format folded --group-by lineno
