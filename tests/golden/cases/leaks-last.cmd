allocsnap leaks leaks --last 30s --top 1 -v; cp leaks/12.snap leaks-gaps; allocsnap leaks leaks leaks-gaps --top 1
