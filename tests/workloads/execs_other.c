// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The program that execs.c becomes: the same functions at other addresses. */
#include <stddef.h>

#define PADDED(n) __attribute__((noinline, used)) static int padding_##n(int x) \
	{ return x * (n + 3) + (x >> n); }
PADDED(1) PADDED(2) PADDED(3) PADDED(4) PADDED(5) PADDED(6) PADDED(7) PADDED(8)
__attribute__((noinline, used)) static size_t not_the_site(volatile size_t *at)
{
	for (size_t i = 0; i < 8; i++)
		at[i] += at[i + 1] * at[i + 2] + at[i + 3];
	return at[0];
}

#define SITE the_other_site
#include "execs.c"
