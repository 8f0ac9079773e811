mkdir parts
cp fleet/web-2-2.snap parts
allocsnap convert fleet/web-1-2.snap -o parts/part.snap --include '*/cart.c'
allocsnap fleet index parts
allocsnap fleet stats
allocsnap fleet diff --baseline host=web-1 --candidate host=web-2 --json
