/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CAVEATS_DIFF_H
#define ALLOCSNAP_CLI_CAVEATS_DIFF_H

/* Reasons why the difference of two snapshots may mislead. */

#include <stddef.h>

#include "engine.h"

struct shared_names;
struct snapshot;

struct comparison {
	const struct snapshot *old, *new;
	const struct statistics *diff;
	const struct engine_options *options; /* of the comparison */
	const struct shared_names *names; /* NULL: not known */
	struct cost *gap_blocks; /* of both snapshots: what may have been freed in a gap; set by the checks */
};

#define COMPARISON_CHECK_NR 21

struct warnings {
	struct reason text[COMPARISON_CHECK_NR];
	const char *line[COMPARISON_CHECK_NR];
	size_t nr;
};

/*
 * Makes one line for each check that found something, in the order of the table; line points into
 * *ret. A hint, which begins with "hint: ", is only given if there is no warning.
 */
void compare_warnings(const struct comparison *comparison, struct warnings *ret);

#endif
