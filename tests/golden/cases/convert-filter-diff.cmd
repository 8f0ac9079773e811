allocsnap convert old.snap -o part.snap --include 'src/*' 2>/dev/null; allocsnap diff part.snap new.snap --top 1
