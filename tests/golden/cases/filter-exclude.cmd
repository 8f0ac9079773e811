allocsnap stats mixed.snap --exclude 'src/*' --exclude object=/usr/lib/libcrypto.so.3
