allocsnap stats sampled-old.snap --measure allocated; allocsnap stats sampled-old.snap --measure temporary --json; allocsnap diff sampled-old.snap sampled-old.snap --measure allocated
