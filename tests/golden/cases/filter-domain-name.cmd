allocsnap stats pooled.snap --include domain=pool; allocsnap stats pooled.snap --exclude domain=pool,file='src/*' --top 1; allocsnap stats pooled.snap --include domain=pol
