/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_BUILD_REPORT_H
#define ALLOCSNAP_REPORT_BUILD_REPORT_H

#include "engine.h"
#include "report/report_data.h"
#include "report/report_series.h"

struct engine_options;
struct snapshot;

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

/*
 * Sets data->sources: the lines around the own frames of all tracebacks, from files below a folder. A file that was
 * changed after recorded_ns (since 1970) is left out, and counted: its lines may be others by now. 0 or -ENOMEM.
 */
int report_add_sources(struct report_data *data, const char *folder, uint64_t recorded_ns, size_t *ret_newer_nr);

struct report_input {
	const struct snapshot *snapshot;
	const char *name;
	const struct engine_options *options; /* where tracebacks start, and which blocks */
	uint64_t gap_ns; /* blocks born before lived through a gap of the process; 0: take the snapshot's own gaps */
};

/*
 * Adds a snapshot as the last column. Its facts are of the whole snapshot, also if the options choose a part. Returns
 * 0, or with a line in *why -ENOMEM, -ENODATA, -ERANGE (2^63 bytes or more), or -EFBIG: all columns together would have
 * more than cell_max cells. After an error the data can only be released.
 */
int report_add_snapshot(struct report_data *data, const struct report_input *input, size_t cell_max, struct reason *why);

#endif
