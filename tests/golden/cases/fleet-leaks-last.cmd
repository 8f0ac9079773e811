allocsnap fleet index leaks-fleet >/dev/null 2>&1
allocsnap fleet leaks --last 30s --where host=shop-1 --include function=order_new
