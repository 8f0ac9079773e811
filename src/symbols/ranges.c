// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define RANGES_MAX (1 << 22) /* a browser with one section per function has a quarter of it */
#define OVERLAP_MAX 64	     /* ranges around one address; only a file made to be slow has more */

int ranges_add(struct ranges *ranges, uint64_t low, uint64_t high, uint32_t id)
{
	struct range range = { .low = low, .high = high, .id = id };

	if (high <= low || ranges->range_nr >= RANGES_MAX)
		return 0;
	return array_push(ranges, range, range);
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* If several ranges contain an address, the last one in this order wins. */
static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;
	int by = compare_u64(a->low, b->low);

	if (!by)
		by = compare_u64(b->high, a->high);
	return by ? by : compare_u64(b->id, a->id);
}

void ranges_sort(struct ranges *ranges)
{
	uint64_t reach = 0;

	if (!ranges->range_nr)
		return;
	qsort(ranges->range, ranges->range_nr, sizeof(*ranges->range), compare_ranges);
	for (size_t i = 0; i < ranges->range_nr; i++) {
		if (ranges->range[i].high > reach)
			reach = ranges->range[i].high;
		ranges->range[i].reach = reach;
	}
}

/* The number of ranges that begin at or below the address. */
static size_t begun(const struct ranges *ranges, uint64_t address)
{
	return array_first(ranges->range_nr, i, ranges->range[i].low > address);
}

uint32_t ranges_find(const struct ranges *ranges, uint64_t address)
{
	size_t i = begun(ranges, address);

	for (int step = 0; i-- && step < OVERLAP_MAX; step++) {
		if (ranges->range[i].reach <= address)
			break;
		if (ranges->range[i].high > address)
			return ranges->range[i].id;
	}
	return RANGE_NONE;
}

void ranges_release(struct ranges *ranges)
{
	free(ranges->range);
	memset(ranges, 0, sizeof(*ranges));
}
