allocsnap stats nowhere.snap
