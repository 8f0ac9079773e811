allocsnap stats pools.snap; allocsnap stats pools.snap --json | grep -oE '"sampling":{[^}]*}|"[a-z_]*interval"'
