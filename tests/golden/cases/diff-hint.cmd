allocsnap diff buffer.snap enlarged.snap; allocsnap diff buffer.snap enlarged.snap --json
