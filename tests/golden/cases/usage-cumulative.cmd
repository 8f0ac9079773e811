for key in traceback domain process size-class age; do allocsnap stats --cumulative -g $key new.snap; echo $?; done; allocsnap stats --cumulative -f folded new.snap
