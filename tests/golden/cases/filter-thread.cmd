allocsnap stats mixed.snap --thread 4720
