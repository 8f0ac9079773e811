allocsnap stats many.snap >/dev/full; echo $?; allocsnap stats many.snap --top 0 --json >/dev/full; echo $?; allocsnap --help >/dev/full
