/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_LEAKS_H
#define ALLOCSNAP_REPORT_LEAKS_H

/* The verdicts of `allocsnap leaks` in a report. */

#include <stdint.h>

#include "engine.h"
#include "engine/leak_report.h"
#include "report/report_data.h"

struct packed_json;
struct report_layout;

struct report_judgement {
	const struct leaks *leaks; /* NULL: nothing could be judged at all */
	const char *unjudged;	   /* without leaks: why */
	uint64_t begin_ns;	   /* of what was observed, CLOCK_MONOTONIC */
	size_t left_out_nr;	   /* snapshots that are not of the recording that was judged */
};

/*
 * Adds verdicts to data->leaks, after the blocks of the same recording: lines that leak, may leak or grow are never
 * merged. 0 or a negative errno with a line in *why.
 */
int report_add_leaks(struct report_data *data, const struct report_judgement *judgement,
		     const struct engine_options *options, struct reason *why);

/* The member "leaks", with the numbers of tracebacks and nodes in the file. Nothing if there are no verdicts. */
void report_write_leaks(struct packed_json *json, const struct report_data *data, const struct report_layout *layout);

#endif
