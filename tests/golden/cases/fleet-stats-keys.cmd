allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet stats -g domain --where host=web-1
allocsnap fleet stats -g function --cumulative --exclude 'function=cache_*' --where host=web-1
allocsnap fleet stats --all-times --where host=web-1 --where comm=shopd
