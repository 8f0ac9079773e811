/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CAVEATS_FLEET_H
#define ALLOCSNAP_CLI_CAVEATS_FLEET_H

/* Reasons why sums over cohorts, or their difference, may mislead. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "fleet/selection.h"

struct fleet_doubt {
	const struct fleet_facts *facts;
	const struct cohort *const *cohort; /* one, or two: [baseline, candidate] */
	size_t cohort_nr;
	const struct engine_options *engine;
	bool line_drift;
	uint64_t refused_nr; /* of struct dictionary */
	int64_t now_ns; /* since 1970 */
};

#define FLEET_CHECK_NR 14

struct fleet_doubts {
	struct reason text[FLEET_CHECK_NR];
	const char *line[FLEET_CHECK_NR];
	size_t nr;
};

/* Returns 1 with a line in *ret about the processes that the cohort leaves out, or 0. */
int cohort_left_out(const struct cohort *cohort, struct reason *ret);

/* Makes a line for each check that found something, in the table's order; line points into *ret. 0 or -ENOMEM. */
int fleet_doubts_find(const struct fleet_doubt *doubt, struct fleet_doubts *ret);

#endif
