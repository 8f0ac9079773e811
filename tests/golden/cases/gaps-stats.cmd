allocsnap stats gaps.snap; allocsnap stats gaps.snap --no-gap-blocks; allocsnap stats gaps.snap --measure allocated
