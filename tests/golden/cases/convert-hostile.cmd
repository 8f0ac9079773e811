allocsnap convert hostile.snap -o - 2>/dev/null | cut -c 1-300; allocsnap convert hostile.snap -o - 2>/dev/null | allocsnap convert - -o h.snap; allocsnap stats h.snap --top 1
