#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# elf_seeds.sh DIR: small libraries with allocator functions, as inputs of tests/fuzz/elf.c.
set -eu
dir=$1
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
cat >"$made/source.c" <<'SOURCE'
void *memset(void *, int, unsigned long);
static char heap[64];
void *malloc(unsigned long n) { return n < 64 ? heap : 0; }
void free(void *p) { if (p) *(volatile char *)p = 0; }
void *calloc(unsigned long n, unsigned long m) { return memset(malloc(n * m), 0, n * m); }
int swapcontext(int n)
{
	switch (n) {
	case 1: return heap[3]; case 2: return 5; case 3: return heap[n]; case 4: return 77;
	case 5: return heap[9] + 1; case 6: return -4; default: return 0;
	}
}
SOURCE

# seed NAME GCC_OPTION…
seed() {
	name=$1
	shift
	gcc -fPIC -shared -nostdlib -Wl,-z,noseparate-code -fno-builtin "$@" "$made/source.c" -o "$made/library"
	{ printf '\0\20'; cat "$made/library"; } >"$dir/seed-$name"
}

mkdir -p "$dir"
seed stripped -O2 -s
seed sysv -O1 -Wl,--hash-style=sysv -Wl,--build-id
seed gnu -O2 -Wl,--hash-style=gnu -mno-sse
