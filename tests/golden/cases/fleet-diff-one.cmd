allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet diff --baseline host=web-1 --candidate host=web-2
allocsnap fleet diff --baseline host=web-1 --candidate host=web-2 --order process-mean --sort shrink
