allocsnap diff old.snap new.snap -g filename
