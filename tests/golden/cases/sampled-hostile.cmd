allocsnap show sampled-hostile.snap
allocsnap show sampled-hostile.snap --json
allocsnap stats sampled-hostile.snap
allocsnap stats sampled-hostile.snap --no-gap-blocks
allocsnap convert sampled-hostile.snap -o - | allocsnap convert - -o - --to json
allocsnap show sampled-hostile.snap --address 0x7f0100000000
