allocsnap stats new.snap --format dhat
