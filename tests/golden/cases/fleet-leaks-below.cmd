allocsnap fleet index leaks-fleet >/dev/null 2>&1
allocsnap fleet leaks --fail-above 1G/s --top 1 --where host=shop-2
