allocsnap fleet index leaks-java >/dev/null 2>&1
allocsnap fleet leaks
allocsnap fleet leaks --json
