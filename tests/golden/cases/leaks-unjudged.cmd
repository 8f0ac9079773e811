allocsnap leaks leaks-one.snap; echo $?; allocsnap leaks leaks-full.snap; echo $?; allocsnap leaks leaks-full.snap --json; echo $?
