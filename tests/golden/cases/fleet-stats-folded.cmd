allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet stats --format folded --strip-prefix /build/shop/
