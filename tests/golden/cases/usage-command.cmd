allocsnap statistics new.snap
