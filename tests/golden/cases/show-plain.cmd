allocsnap show plain.snap; allocsnap show --format json plain.snap
