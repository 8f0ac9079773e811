// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A plugin whose code needs no relocation, so it also works as a copy. NAME tells two of them apart, and PAD their layout. */
#include <stddef.h>

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

#ifdef PAD
__attribute__((noipa)) int padding(int x)
{
	__asm__ volatile(".skip " PAD ", 0x90");
	return x;
}
#endif

__attribute__((noipa)) static void *CAT(keep_, NAME)(void *(*allocate)(size_t), size_t bytes)
{
	char *volatile block = allocate(bytes);

	return block;
}

void *work(void *(*allocate)(size_t), size_t bytes)
{
	void *volatile block = CAT(keep_, NAME)(allocate, bytes);

	return block;
}
