allocsnap leaks leaks-pools --all
