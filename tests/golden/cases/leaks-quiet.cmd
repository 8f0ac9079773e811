allocsnap leaks leaks-quiet; echo $?; allocsnap leaks leaks-quiet --fail-above 0; echo $?
