allocsnap stats .
