echo '{"traceback_limit":2,"traces":[[0,10,[["a.py",2],["b.py",4]],2],[1,66,[["b.py",1]]]]}' | allocsnap convert - -o - --to snap | allocsnap convert - -o -; allocsnap convert - -o - <python.snap
