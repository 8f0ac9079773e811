allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet stats --include nothing.c --where host=web-1
allocsnap fleet hosts --include nothing.c --where host=web-1
