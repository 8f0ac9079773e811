// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_births.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "engine/leak_judge.h"

int leak_births_add(struct leak_births *births, uint32_t site, uint32_t bin)
{
	return array_push(births, key, site * (uint64_t)LEAK_BINS + bin);
}

/* Sorts by one byte of the keys, and keeps the order of those that have the same. */
static void sort_by_byte(const uint64_t *key, size_t nr, unsigned int shift, uint64_t *ret)
{
	size_t first[257] = {};

	for (size_t i = 0; i < nr; i++)
		first[(key[i] >> shift & 255) + 1]++;
	for (int i = 1; i < 257; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < nr; i++)
		ret[first[key[i] >> shift & 255]++] = key[i];
}

/* By the lowest byte first, up to the highest that any key has. */
int leak_births_sort(struct leak_births *births)
{
	size_t nr = births->key_nr;
	uint64_t all = 0, *sorted = calloc(births->key_alloc ?: 1, sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		all |= births->key[i];
	for (unsigned int shift = 0; shift < 64 && all >> shift; shift += 8) {
		uint64_t *unsorted = births->key;

		sort_by_byte(unsorted, nr, shift, sorted);
		births->key = sorted;
		sorted = unsorted;
	}
	free(sorted);
	return 0;
}

uint64_t leak_births_count(const struct leak_births *births, uint64_t key, size_t *at)
{
	uint64_t nr = 0;

	while (*at < births->key_nr && births->key[*at] < key)
		(*at)++;
	for (; *at < births->key_nr && births->key[*at] == key; (*at)++)
		nr++;
	return nr;
}

void leak_births_release(struct leak_births *births)
{
	free(births->key);
	*births = (struct leak_births){};
}
