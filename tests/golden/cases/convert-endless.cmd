yes | allocsnap convert - -o never.snap; echo $?; allocsnap convert /dev/zero -o never.snap
