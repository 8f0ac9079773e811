// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preloaded: an allocator whose operator new only jumps to its malloc, which then returns for it. (It returns a null
 * pointer where it should throw.)
 */
#include <cstddef>
#include <new>

extern "C" void *__libc_malloc(size_t size);
extern "C" void __libc_free(void *p);

extern "C" void *malloc(size_t size)
{
	return __libc_malloc(size);
}

extern "C" void free(void *p)
{
	__libc_free(p);
}

void *operator new(size_t size)
{
	return malloc(size);
}
