allocsnap fleet index fleet/ ./fleet 2>/dev/null
mkdir more
mv fleet/web-4-1.snap fleet/z-* more
echo hello >more/notes.txt
allocsnap fleet index fleet
allocsnap fleet index more 2>&1 | sed "s|$PWD/||g"
allocsnap fleet index missing 2>&1 | sed "s|$PWD/||g"
