mkdir d; allocsnap stats d
