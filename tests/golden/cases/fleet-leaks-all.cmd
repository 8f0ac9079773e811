allocsnap fleet index leaks-fleet >/dev/null 2>&1
allocsnap fleet leaks --all --top 0 --where host=shop-5
