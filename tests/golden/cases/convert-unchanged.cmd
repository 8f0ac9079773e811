allocsnap convert new.snap -o copy.snap 2>/dev/null; cmp new.snap copy.snap; allocsnap convert new.snap -o -  --to snap 2>/dev/null | cmp - new.snap
