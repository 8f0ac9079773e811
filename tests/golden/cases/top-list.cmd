allocsnap top fleet
