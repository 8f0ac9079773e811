allocsnap stats many.snap --thread 1; allocsnap diff many.snap new.snap --thread 4711
