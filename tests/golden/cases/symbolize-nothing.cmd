allocsnap symbolize --root . never.snap old.snap damaged.snap plain.snap; echo $?; allocsnap symbolize --root . old.snap -o copy.snap; allocsnap diff old.snap copy.snap | tail -1
