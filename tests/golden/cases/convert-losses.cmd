allocsnap convert new.snap -o out.json
