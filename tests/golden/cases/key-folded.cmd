allocsnap stats mixed.snap -g function -f folded; allocsnap diff old.snap new.snap -g object -f folded
