/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_REPORT_OUTPUT_H
#define ALLOCSNAP_CLI_REPORT_OUTPUT_H

/* The HTML file of `report` and `fleet report`. Functions return an exit status and report failures. */

#include <jansson.h>
#include <stddef.h>

#include "cli/cmd_select.h"

struct report_data;

/* The facts of a report besides its blocks; docs/report-format.md has the members of JSON. */
struct report_facts {
	const char *kind;
	json_t *question, *warnings;
	const struct select_options *select;
	size_t given_nr, shown_nr; /* snapshots */
	size_t newer_nr;	   /* source files that were left out */
};

/* report_facts_release() in any case. */
int report_facts_init(struct report_facts *facts, const struct select_options *select);
void report_facts_release(struct report_facts *facts);

/* Adds a line to the page's warnings, and says it on stderr. Returns 0 or -ENOMEM. */
int report_warn(struct report_facts *facts, const char *line);

/* output: of -o; NULL: it is missing. */
int report_output_check(const struct command *command, const char *output);

/* Writes the file, whole or not at all; it belongs to the user behind sudo in a folder of that user. */
int report_output_write(const char *output, struct report_data *data, const struct report_facts *facts);

#endif
