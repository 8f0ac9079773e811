allocsnap stats new.snap --skip 'x*' --skip cart_new
