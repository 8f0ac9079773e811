allocsnap show hostile.snap
