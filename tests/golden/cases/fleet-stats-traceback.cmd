allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet stats --group-by traceback --where host=web-1 --where time'<'1795238000
