allocsnap stats packed.snap --top 2; allocsnap convert packed.snap -o large.snap; cmp large.snap mixed.snap; test $(wc -c <packed.snap) -lt $(wc -c <mixed.snap) && echo smaller
