/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_INJECT_POOL_H
#define TESTS_INJECT_POOL_H

/* pool.c defines malloc, free, calloc, realloc and posix_memalign of the program; blocks have up to 256 bytes. */

#include <stddef.h>
#include <stdlib.h>

/* Before the first block is asked for. */
void pool_fill(void);

/* C++'s, which no exception leaves, and the variant with std::nothrow. */
void *operator_new(size_t bytes) __asm__("_Znwm");
void *operator_new_nothrow(size_t bytes, const void *nothrow) __asm__("_ZnwmRKSt9nothrow_t");

#endif
