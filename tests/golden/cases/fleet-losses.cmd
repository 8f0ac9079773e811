allocsnap fleet index strangers >/dev/null
allocsnap fleet stats --all-times
