allocsnap diff plain.snap empty.snap --include nothing; allocsnap stats empty.snap; allocsnap convert mixed.snap -o none.snap --include nothing; allocsnap stats none.snap
