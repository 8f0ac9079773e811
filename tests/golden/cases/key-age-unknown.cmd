allocsnap stats many.snap -g age
