allocsnap stats cxx.snap --skip 'shop::Cart::*'; allocsnap stats cxx.snap --skip 'Codec<2>::*' --skip cart.cc --skip '*/lib'
