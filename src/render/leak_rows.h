/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_LEAK_ROWS_H
#define ALLOCSNAP_RENDER_LEAK_ROWS_H

/*
 * A leak as text: a row with verdict, rate and place, and below it the lines that leak together, the callers and the
 * reasons. `leaks` prints the leaks of one process so, `fleet leaks` those of many.
 */

#include <stdbool.h>

#include "engine/leak_place.h"
#include "render/emitter.h"
#include "render/readable_name.h"

struct leak_row_line {
	const struct frame_view *own;	/* its name; NULL: that of its place */
	const struct leak_place *place; /* NULL: its callers are not known */
	const struct leak_verdict *verdict;
	uint32_t summed; /* so many tracebacks were judged as one, or 0 */
	double bytes_per_s;
};

struct leak_row {
	enum leak_kind kind;
	double bytes_per_s, least_bytes_per_s;
	const char *extent; /* behind the rates: "all the time"; NULL: none */
	const char *where;  /* a line below the row; NULL: none */
	const struct frame_view *common; /* if there are several lines: the frame that all have in common; NULL: none */
	const struct leak_window *window; /* of the reasons */
	const struct leak_row_line *line; /* those that leak together, by rate, descending; at least one */
	size_t line_nr;
};

#define LEAK_CALLER_ROWS 5 /* below a line, unless all are shown */

struct leak_row_style {
	const struct readable_names *names; /* NULL: names in full */
	unsigned int width; /* of the terminal; 0: rows are not cut */
	bool has_no_folders; /* of files: the row would be too wide */
	bool is_verbose;    /* with whole tracebacks */
	bool shows_callers; /* all of them */
	const char *more_callers; /* what shows those that are left out: "; -v shows them" */
};

/* Adds the functions of a place. Returns 0 or -ENOMEM. */
int leak_place_add_names(struct readable_names *names, const struct leak_place *place);

void emit_leak_row(struct emitter *out, const struct leak_row_style *style, const struct leak_row *row);

#endif
