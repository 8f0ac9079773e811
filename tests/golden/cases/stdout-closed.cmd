allocsnap stats many.snap >&-
