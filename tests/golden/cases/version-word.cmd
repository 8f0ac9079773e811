allocsnap version | sed "s/ [0-9].*/ VERSION/"
allocsnap -V | sed "s/ [0-9].*/ VERSION/"
