allocsnap fleet index leaks-fleet >/dev/null 2>&1
allocsnap fleet leaks --json --top 3 --where host!=shop-4
