mkdir -p allocsnap-data/shop-1/shopd.4711 allocsnap-data/shop-2/shopd.815; one=allocsnap-data/shop-1/shopd.4711; two=allocsnap-data/shop-2/shopd.815
cp old.snap $one/20261121T051200.123Z.snap; cp plain.snap $one/20261121T051210.123Z.snap; cp new.snap $one/20261121T051250.123Z.snap; cp many.snap $two/20261121T051300.000Z.snap
top() { echo "== $*"; allocsnap stats "$@" --top 1 2>&1 | grep -v ": losses:"; }
top 4711; top 815; top shopd.4711; top $one; top $one/; top 4711@first; top 4711@-2; top $one@-3; top 4711@-4; top 4711@latest
top shopd; top shopd@first; top allocsnap-data; top allocsnap-data/shop-2; top latest; top nginx; top nginx@first; top ./nginx; top nginx.snap; top new.snap@first; top 4711@last
cp new.snap shopd; top shopd; chmod +x shopd; top shopd.4711@latest; top shopd; mkdir 815; top 815; rm -r allocsnap-data/shop-1; top latest; top first; top -1; top -2
