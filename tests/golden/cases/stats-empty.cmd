allocsnap stats empty.snap; allocsnap stats empty.snap --json; allocsnap stats empty.snap -f folded
