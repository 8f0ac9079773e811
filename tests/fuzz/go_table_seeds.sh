#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# go_table_seeds.sh DIR SOURCE: small programs with tables of Go's, as inputs of tests/fuzz/go_table.c.
set -eu
dir=$1
source=$2
mkdir -p "$dir"

# seed NAME GCC_OPTION…
seed() {
	name=$1
	shift
	gcc -nostdlib -Wl,-e,code,--build-id=none,-z,noseparate-code,-z,max-page-size=4096 -s "$@" "$source" -o "$dir/seed-$name"
}

for kind in static pie; do
	seed "2-$kind" "-$kind" -DMAGIC=0xfb
	seed "16-$kind" "-$kind" -DMAGIC=0xfa
	seed "18-$kind" "-$kind" -DMAGIC=0xf0 -DTREES=38
	seed "20-$kind" "-$kind" -DMAGIC=0xf1 -DTREES=40 -DFALSE_FIRST
done
