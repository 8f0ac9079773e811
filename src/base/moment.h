/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_MOMENT_H
#define ALLOCSNAP_BASE_MOMENT_H

/*
 * When a snapshot was taken, and the order of snapshots.
 *
 * Within a boot the monotonic clock orders snapshots: it never goes back, and the wall clock does (NTP, a resumed
 * machine, an administrator). Between boots and hosts there is only the wall clock. Both together must be one order,
 * without circles. So each boot has one distance from its monotonic clock to the wall clock, and its newest snapshot
 * says which: the time of a moment is its monotonic time plus that distance.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"

struct moment {
	uint64_t wall_ns;
	uint64_t monotonic_ns;
	uint32_t boot; /* the first 32 bits of boot_id; 0: not known, and only wall_ns counts */
	uint32_t nr;   /* of several files with one name; the first one is 1 (archive/names.h) */
};

/* The first 32 bits of boot_id; 0 if text is NULL or no boot_id. */
uint32_t boot_parse(const char *text);

/* ---- the order ---- */

struct boot_clock {
	uint32_t boot;
	struct moment newest;
};

/* The clocks of all boots that moments are from. A zeroed struct has none. */
struct boot_clocks {
	struct boot_clock *clock;
	size_t clock_nr, clock_alloc;
	struct idmap ids;
};

/*
 * Adds a moment's boot, or its clock if the moment is the boot's newest. Returns 1 if that sets the boot's earlier
 * moments by a second or more, so that what was sorted is no longer; 0; or -ENOMEM.
 */
int boot_clocks_add(struct boot_clocks *clocks, const struct moment *moment);
void boot_clocks_release(struct boot_clocks *clocks);

/* The time of a moment, in nanoseconds since 1970, by which it is ordered. */
uint64_t moment_time_ns(const struct moment *moment, const struct boot_clocks *clocks);

/* Negative if a is before b. clocks may be NULL for two moments: then wall times decide between boots. */
int moment_compare(const struct moment *a, const struct moment *b, const struct boot_clocks *clocks);

struct moment_order {
	size_t item_size; /* of a row, which begins with its struct moment */
	bool newest_first;
	int (*compare_rest)(const void *, const void *); /* rows of one moment */
};

/* Sorts rows. Returns 0, or -ENOMEM and leaves them as they are. */
int moments_sort(void *row, size_t nr, const struct moment_order *order);

#endif
