/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_ADDING_H
#define ALLOCSNAP_REPORT_ADDING_H

/* A column while it is added to a report: of a snapshot's blocks, or of a fleet's rows. */

#include "engine/selector.h"
#include "engine/trace_source.h"
#include "fleet/catalogue.h"
#include "fleet/selection.h"
#include "report/report_data.h"
#include "snapshot.h"

/* Arrays by ids of the snapshot have IDMAP_NONE for what was not needed yet. */
struct adding {
	struct report_data *data;
	const struct snapshot_tables *tables;
	struct source source;
	struct selector selector;
	uint32_t *frame_id, *traceback_id;
	struct idmap domain_names; /* rows of the metadata, by the domain that they name */
	uint32_t *path; /* frames of one traceback */
	size_t path_alloc;
	struct report_cell *now; /* by row */
	size_t now_nr, now_alloc;
	struct spread *spread; /* by row, if there are samples */
	size_t spread_nr, spread_alloc;
	bool is_sampled;
	int64_t size, count; /* all blocks so far */
};

/*
 * The caller keeps snapshot and options until release. gap_ns: the last gap of the process, of which the snapshot may
 * not know; 0: it does. Errors as from selector_init().
 */
int adding_init(struct adding *adding, struct report_data *data, const struct snapshot *snapshot,
		const struct engine_options *options, uint64_t gap_ns, struct reason *why);
void adding_release(struct adding *adding);

/* The report's id of a traceback of the snapshot; the number of a domain in the report. 0 or -ENOMEM. */
int adding_find_traceback(struct adding *adding, uint32_t traceback, uint32_t *ret_id);
int adding_find_domain(struct adding *adding, uint32_t number, uint32_t *ret_at);

/* Adds blocks to a row; of samples, these alone and their spread (NULL: none). -ERANGE if it is too much, or -ENOMEM. */
int adding_add(struct adding *adding, uint32_t row, const struct cost *cost, const struct spread *spread,
	       struct reason *why);

/* Adds to the column what changed since the last one. 0 or -ENOMEM. */
int adding_put_changes(struct adding *adding, struct report_column *column);

/* A column of a fleet's report: the snapshots of a cohort, added up, and told apart by process. */

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
