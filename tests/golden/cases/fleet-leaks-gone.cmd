allocsnap fleet index leaks-fleet >/dev/null 2>&1
rm -r leaks-fleet/shop-1 leaks-fleet/shop-2/01.snap; cp leaks-fleet/shop-4/02.snap leaks-fleet/shop-3/05.snap
allocsnap fleet leaks --top 1 2>&1 | sed "s|$PWD|PWD|"
