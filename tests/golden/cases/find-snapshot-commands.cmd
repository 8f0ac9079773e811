mkdir -p allocsnap-data/shop-1/shopd.4711 allocsnap-data/shop-1/once.5; one=allocsnap-data/shop-1/shopd.4711
cp old.snap $one/20261121T051200.123Z.snap; cp mixed.snap $one/20261121T051210.123Z.snap; cp new.snap $one/20261121T051250.123Z.snap; cp plain.snap allocsnap-data/shop-1/once.5
run() { echo "== $*"; allocsnap "$@" 2>&1 | grep -v ": losses:"; }
run diff shopd --top 1; run diff $one --top 1; run diff 4711@-2 4711 --top 1; run diff 4711 --json --top 1; run diff once; run diff allocsnap-data; run diff 4711@first; run diff old.snap; run diff nothing
run show 4711@first | head -n 5; run convert 4711@first -o first.snap; cmp first.snap old.snap && echo same; run symbolize once; run symbolize 4711 -o x.snap; run stats --at-peak allocsnap-data --top 1; run stats --at-peak shopd once nothing --top 1
mkdir allocsnap-data/shop-1/leaky.7; cp leaks/*.snap allocsnap-data/shop-1/leaky.7; allocsnap leaks leaks >whole 2>&1; run leaks leaky.7 --top 1 | head -n 3; allocsnap leaks leaky.7 2>&1 | cmp - whole; run leaks leaky.8
echo >prog; chmod +x prog; run leaks prog; run leaks ./prog
