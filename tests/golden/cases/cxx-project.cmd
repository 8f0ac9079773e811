allocsnap stats cxx.snap --project '*/shop/src'; allocsnap stats cxx.snap --project /srv -n 1
