/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_ADD_COHORT_H
#define ALLOCSNAP_REPORT_ADD_COHORT_H

/* A column of a fleet's report: the snapshots of a cohort, added up, and told apart by process. */

#include "fleet/catalogue.h"
#include "fleet/selection.h"
#include "report/report_data.h"

struct cohort_input {
	const char *name; /* "baseline" */
	struct rows_source rows;
	const struct fleet_facts *facts;
	const struct cohort *cohort;
	const struct snapshot *dictionary;
	const int64_t *traceback_id; /* of each of its traces */
	const struct engine_options *options;
};

/*
 * Adds the column, and the processes to data->processes. Returns 0, or
 * with a line in *why -ENOMEM, -ENODATA, -EBADMSG, -ERANGE, or -EFBIG: more than cell_max cells in all columns.
 */
int report_add_cohort(struct report_data *data, const struct cohort_input *input, size_t cell_max, struct reason *why);

#endif
