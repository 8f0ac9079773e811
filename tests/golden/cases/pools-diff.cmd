allocsnap diff pools-old.snap pools.snap; mkdir -p kept-pools/shopd.1; cp pools.snap kept-pools/shopd.1/; allocsnap list kept-pools --json | grep -o '"sampler":"[a-z]*"'
