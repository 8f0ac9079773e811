allocsnap convert mixed.snap -o small.snap --compress; cmp small.snap packed.snap; allocsnap convert mixed.snap -o - --to snap -z | cmp - packed.snap
