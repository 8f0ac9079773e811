allocsnap stats --thread main new.snap; echo $?; allocsnap stats --thread 0 new.snap
