mkdir both; cp -r leaks both/a; mkdir both/b; cp leaks-quiet/12.snap both/b; touch -d 2030-01-01 both/b/12.snap; allocsnap leaks both 2>&1 | head -3; allocsnap leaks both/b 2>&1 | head -1
