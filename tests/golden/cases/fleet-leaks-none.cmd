allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet leaks --where label.version=1.3
