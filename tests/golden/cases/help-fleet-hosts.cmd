allocsnap fleet hosts -h
