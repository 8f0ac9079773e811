allocsnap fleet index fleet 2>err; status=$?
sed "s|$PWD/||g" err >&2
exit $status
