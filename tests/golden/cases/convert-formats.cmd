for f in pb.gz folded dhat.json csv md; do allocsnap convert mixed.snap -o x.$f && ls x.$f; done; cat x.csv x.md x.folded; allocsnap convert old.snap -o - --to csv
