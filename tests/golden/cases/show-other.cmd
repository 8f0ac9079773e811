allocsnap show other.snap
