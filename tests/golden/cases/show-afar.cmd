allocsnap show afar.snap
