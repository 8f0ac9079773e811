allocsnap diff old.snap new.snap -c
