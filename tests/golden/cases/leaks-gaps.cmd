allocsnap leaks leaks-gaps; echo $?
