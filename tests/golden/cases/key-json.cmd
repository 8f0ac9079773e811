allocsnap stats mixed.snap -g size-class --json; allocsnap stats mixed.snap -g domain --json
