/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_BUILD_REPORT_H
#define ALLOCSNAP_REPORT_BUILD_REPORT_H

#include "engine.h"
#include "report/report_data.h"
#include "report/report_series.h"

/* Zero is the default for all but engine. */
struct report_request {
	const struct engine_options *engine;
	const char *source_dir; /* NULL: no source lines */
	size_t cell_max;	/* memory: 24 bytes for each row that changes in a snapshot; 0: REPORT_CELLS_MAX */
};

#define REPORT_CELLS_MAX (8 << 20)

/*
 * Reads the snapshots of the series into *ret, and thins the series out if they are too much. data->head has "process"
 * (of the last) and "gaps". *ret_newer_nr: source files that were left out. Returns 0, or a negative errno with a line
 * in *why. report_data_release() in any case.
 */
int build_report(struct series *series, const struct report_request *request, struct report_data *ret,
		 size_t *ret_newer_nr, struct reason *why);

#endif
