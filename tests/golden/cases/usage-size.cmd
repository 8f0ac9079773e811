allocsnap stats --min-size 5 --max-size 4 new.snap; echo $?; allocsnap stats --min-size 1KB new.snap; echo $?; allocsnap stats --max-size 99999999T new.snap
