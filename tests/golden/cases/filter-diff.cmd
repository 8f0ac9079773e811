allocsnap diff old.snap new.snap --include 'src/*' --exclude src/cart.c
