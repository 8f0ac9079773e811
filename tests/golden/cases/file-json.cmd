echo '{"traceback_limit":2,"traces":[[0,10,[["a.py",2],["b.py",4]],2],[1,66,[["b.py",1]]]]}' >in.json; allocsnap stats in.json; allocsnap show in.json; allocsnap diff old.snap in.json
