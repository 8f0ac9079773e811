allocsnap fleet stats
echo $?
allocsnap fleet index fleet >/dev/null 2>&1
for args in "" "statistics" "--catalogue x" "stats x" "stats --where host=nobody" "stats --where hots=web" "stats --measure live" \
	"stats --group-by age" "hosts --min-size 4K" "hosts --format json" "diff --baseline host=web-1" \
	"diff --baseline host=web-1 --candidate host=nobody" "diff --baseline host=web-1 --candidate host=web-2 --order size" \
	"stats --line-drift --source ." \
	"trend --group-by traceback --cumulative" "index"; do
	allocsnap fleet $args >/dev/null
	echo $?
done
allocsnap fleet stats --catalogue old.snap
