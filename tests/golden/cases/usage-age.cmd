allocsnap stats --min-age 2m --max-age 90s new.snap; echo $?; allocsnap stats --max-age 0 new.snap
