// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>

int array_reserve_bytes(void **items, size_t *alloc, size_t want, size_t item_size)
{
	size_t grown = *alloc + *alloc / 2 + 16;
	void *moved;

	if (want <= *alloc)
		return 0;
	if (grown < want)
		grown = want;
	moved = reallocarray(*items, grown, item_size);
	if (!moved)
		return -ENOMEM;
	*items = moved;
	*alloc = grown;
	return 0;
}

int array_by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}
