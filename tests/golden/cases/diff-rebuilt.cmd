allocsnap diff enlarged.snap rebuilt.snap; allocsnap diff rebuilt.snap buffer.snap --json
