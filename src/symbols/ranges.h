/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_RANGES_H
#define ALLOCSNAP_SYMBOLS_RANGES_H

/*
 * Address ranges with ids. To find the one that contains an address, fill the table with
 * ranges_add(), call ranges_sort() once, then ranges_find(). A zeroed struct is an empty table.
 *
 * Ranges may overlap (hostile files; code that the linker merged or dropped). The innermost wins:
 * the one that begins last, then the shorter, then the one with the lower id.
 */

#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t low, high; /* [low, high) */
	uint64_t reach;	    /* the highest `high` of this range and those before it */
	uint32_t id;
};

struct ranges {
	struct range *range;
	size_t range_nr, range_alloc;
};

#define RANGE_NONE UINT32_MAX

/* Ignores empty ranges, and ranges beyond a limit far above honest files. 0 or -ENOMEM. */
int ranges_add(struct ranges *ranges, uint64_t low, uint64_t high, uint32_t id);
void ranges_sort(struct ranges *ranges);

/* The id of the innermost range that contains the address, or RANGE_NONE. */
uint32_t ranges_find(const struct ranges *ranges, uint64_t address);

void ranges_release(struct ranges *ranges);

#endif
