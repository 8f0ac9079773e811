allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet hosts --json --where "host!=web-5" --top 2
