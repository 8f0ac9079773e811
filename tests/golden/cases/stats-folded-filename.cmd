allocsnap stats new.snap -f folded -g filename
