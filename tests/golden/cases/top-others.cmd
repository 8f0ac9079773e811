for snap in python empty damaged; do allocsnap top $snap.snap; done
