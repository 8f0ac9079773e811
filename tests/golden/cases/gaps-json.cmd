allocsnap stats gaps.snap --json; allocsnap diff gaps.snap gaps.snap --json
