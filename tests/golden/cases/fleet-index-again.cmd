allocsnap fleet index fleet/ ./fleet 2>/dev/null
mkdir more
mv fleet/web-4-1.snap fleet/z-* more
echo hello >more/notes.txt
allocsnap fleet index fleet
allocsnap fleet index more 2>&1 | sed "s|$PWD/||g"
allocsnap fleet index missing 2>&1 | sed "s|$PWD/||g"
mkdir links
ln -s "$PWD"/fleet/*.snap links
allocsnap fleet index links
allocsnap fleet index links/*.snap 2>&1 | sed "s|$PWD/||g"
allocsnap fleet index more/notes.txt 2>&1
