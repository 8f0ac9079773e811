allocsnap diff old.snap new.snap -g function; allocsnap diff old.snap new.snap -g size-class --json
