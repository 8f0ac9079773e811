allocsnap fleet index leaks-fleet >/dev/null 2>&1
allocsnap fleet leaks
