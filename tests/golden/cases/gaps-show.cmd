allocsnap show gaps.snap | head -20
