allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet leaks --where "time<1795243000"
