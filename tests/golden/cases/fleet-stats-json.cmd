allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet stats --where label.version=1.3 --json
allocsnap fleet stats --where 'host=web-[45]' --json --top 1
