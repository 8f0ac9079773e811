allocsnap show sampled-old.snap --address 0x7f0100000010; allocsnap show sampled-old.snap --address 0x7f0100000010 --json
