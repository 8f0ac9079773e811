allocsnap diff old.snap new.snap -f folded -s shrink
