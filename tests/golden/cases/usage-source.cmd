allocsnap stats --source . --json new.snap; echo $?; allocsnap stats --source . -g function new.snap
