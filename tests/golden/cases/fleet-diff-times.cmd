allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet diff --baseline "time<1795238000" --candidate "time>=1795244000" --where host=web-3
allocsnap fleet diff --baseline "host=web-[12]" --candidate "host=web-[23]" --group-by traceback
