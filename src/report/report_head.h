/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_REPORT_HEAD_H
#define ALLOCSNAP_REPORT_REPORT_HEAD_H

/* The facts of a report, as docs/report-format.md has them. Functions return 0 or a negative errno. */

#include <jansson.h>

struct engine_options;
struct snapshot;

/* An element of "snapshots", without its columns. The caller drops *ret. */
int report_snapshot_head(const struct snapshot *snapshot, const char *name, const struct engine_options *options,
			 json_t **ret);

/* "process", of the last snapshot. */
int report_process_head(const struct snapshot *snapshot, json_t **ret);

/* Sets "gaps": those of the snapshot; neighbours are joined if there are too many, and "gaps_joined" says how many. */
int report_set_gaps(json_t *report, const struct snapshot *snapshot);

#endif
