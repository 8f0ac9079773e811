allocsnap show -h
