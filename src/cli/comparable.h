/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COMPARABLE_H
#define ALLOCSNAP_COMPARABLE_H

/* Why the difference of two snapshots may not be what it seems. */

#include <stddef.h>

#include "engine.h"

struct snapshot;

struct comparison {
	const struct snapshot *old, *new;
	const struct statistics *diff;
	const struct engine_options *options; /* that it was asked with */
	struct cost *gap_blocks; /* two: of either, those of the answer that may be gone; set by the checks */
};

#define COMPARISON_CHECK_NR 14

struct warnings {
	struct reason text[COMPARISON_CHECK_NR];
	const char *line[COMPARISON_CHECK_NR];
	size_t nr;
};

/*
 * A line for each check that found something, in the order of the table; line points into
 * *ret. A hint, which begins with "hint: ", stands only where nothing else does.
 */
void compare_warnings(const struct comparison *comparison, struct warnings *ret);

#endif
