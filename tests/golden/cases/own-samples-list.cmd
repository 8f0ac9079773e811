mkdir -p one/shopd.1 one/shopd.2; cp own-samples.snap one/shopd.1/; cp own-samples-old.snap one/shopd.2/
allocsnap list one; allocsnap list one --json | grep -o '"sampler":"[a-z]*"'; allocsnap stats own-samples.snap; allocsnap stats own-samples.snap --json | grep -o '"sampling":{[^}]*}'
