allocsnap stats cxx.snap --include 'function=shop::Cart::add'; allocsnap stats cxx.snap --include 'function=shop::Cart::add(int)'
