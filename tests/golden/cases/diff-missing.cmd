allocsnap diff old.snap nowhere.snap
