allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet diff --baseline label.version=1.3 --candidate label.version=1.4 --format folded
