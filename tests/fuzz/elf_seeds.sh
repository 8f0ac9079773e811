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
void *_Znwm(unsigned long n) { void *p = malloc(n + 8); return p ? (char *)p + 8 : 0; }
void *x_malloc(unsigned long n) { return n < 32 ? heap + 32 : 0; }
void *x_mallocx(unsigned long n, int flags) { return n + flags < 32 ? heap + 32 : 0; }
void *x_calloc(unsigned long n, unsigned long m) { return x_malloc(n * m); }
void *x_realloc(void *p, unsigned long n) { return n < 32 ? p : 0; }
void x_free(void *p) { if (p) *(volatile char *)p = 1; }
int swapcontext(int n)
{
	switch (n) {
	case 1: return heap[3]; case 2: return 5; case 3: return heap[n]; case 4: return 77;
	case 5: return heap[9] + 1; case 6: return -4; default: return 0;
	}
}
SOURCE
# a CPython of few words: its version, its tables, a copied body
cat >"$made/python.c" <<'SOURCE'
typedef unsigned long number;
struct table { void *ctx, *(*malloc)(void *, number), *(*calloc)(void *, number, number), *(*realloc)(void *, void *, number); void (*free)(void *, void *); };
const unsigned Py_Version = 0x030b02f0;
char _PyRuntime[1024] = { 1 }, PyType_Type[8], pool[64];
static void *own_malloc(void *c, number n) { return n < 64 ? pool + n : c; }
static void *own_calloc(void *c, number n, number m) { return n * m < 64 ? pool : c; }
static void *own_realloc(void *c, void *p, number n) { return n < 64 ? p : c; }
static void own_free(void *c, void *p) { *(volatile char *)p = c != 0; }
struct table raw = { 0, own_malloc, own_calloc, own_realloc, own_free };
void *PyMem_RawMalloc(number n) { return raw.malloc(raw.ctx, n); }
void *PyMem_Malloc(number n) { return raw.malloc(raw.ctx, n + 1); }
void *PyObject_Malloc(number n)
{
	return raw.malloc == own_malloc ? own_malloc(raw.ctx, n) : raw.malloc(raw.ctx, n);
}
void PyObject_Free(void *p) { if (raw.free == own_free) own_free(raw.ctx, p); else raw.free(raw.ctx, p); }
SOURCE

# seed NAME GCC_OPTION…
seed() {
	name=$1
	shift
	gcc -fPIC -shared -nostdlib -Wl,-z,noseparate-code -fno-builtin "$@" "$made/${source:-source}.c" -o "$made/library"
	{ printf '\0\20'; cat "$made/library"; } >"$dir/seed-$name"
}

mkdir -p "$dir"
seed stripped -O2 -s
seed sysv -O1 -Wl,--hash-style=sysv -Wl,--build-id
seed gnu -O2 -Wl,--hash-style=gnu -mno-sse
source=python seed python -O2 -Wl,-z,max-page-size=4096 -s
source=python seed python-bound -O2 -Wl,-Bsymbolic -s
