printf '\200\004\225\000' >py.pickle; allocsnap stats py.pickle; allocsnap convert py.pickle -o x.snap; allocsnap convert - -o x.snap <py.pickle; ls x.snap 2>/dev/null
