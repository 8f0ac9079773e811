allocsnap stats many.snap --max-age 1s; allocsnap diff new.snap many.snap --min-age 1s
