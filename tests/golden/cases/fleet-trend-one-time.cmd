allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet trend --where "time<1795238000"
