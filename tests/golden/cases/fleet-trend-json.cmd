allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet trend --json --where label.version=1.4
