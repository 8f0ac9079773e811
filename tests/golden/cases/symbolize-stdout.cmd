allocsnap symbolize a.snap -o -
