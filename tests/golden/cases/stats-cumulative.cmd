allocsnap stats new.snap --cumulative
