/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_ADD_SNAPSHOT_H
#define ALLOCSNAP_REPORT_ADD_SNAPSHOT_H

#include "engine.h"
#include "report/report_data.h"

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

/* The limits of the classes of `--group-by age`, at the time of the last snapshot, as boundaries of births. */
int report_add_age_boundaries(struct report_data *data, uint64_t now_ns);

#endif
