allocsnap diff --sort up old.snap new.snap; echo $?; allocsnap stats --sort growth new.snap
