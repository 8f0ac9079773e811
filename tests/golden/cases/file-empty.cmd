allocsnap stats /dev/null; : >zero.snap; allocsnap stats zero.snap
