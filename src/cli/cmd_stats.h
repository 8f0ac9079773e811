/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_STATS_H
#define ALLOCSNAP_CMD_STATS_H

/* The options of stats and diff, and reports to stdout. */

#include "cli/cmd.h"
#include "cli/cmd_select.h"
#include "engine.h"

struct renderer;
struct report;

#define KEY_TYPE_UNSAID KEY_TYPE_NR
#define TOP_UNSAID UINT64_MAX
#define STATS_DEFAULTS .key_type = KEY_TYPE_UNSAID, .top = TOP_UNSAID

struct stats_options {
	enum key_type key_type; /* or KEY_TYPE_UNSAID */
	bool cumulative;
	enum measure measure;
	uint64_t top; /* TOP_UNSAID: as the format has it */
	bool oldest_first;
	bool at_peak; /* of stats alone */
	const char *source_dir;
	const struct renderer *format; /* NULL: text */
	struct select_options select;
};

extern const struct command cmd_stats, cmd_diff, cmd_show;

/* What makes a group, what is added up, how it is written. */
extern const struct option_row group_rows[], measure_rows[], output_rows[];
#define STATS_GROUPS(base) { group_rows, base }, { measure_rows, base }, { output_rows, base }

/* --group-by: parse() of an enum key_type field. */
int parse_key_type(const char *text, void *field, struct reason *why);

/* --json and --format of `show`, too: parse() functions of a const struct renderer * field. */
int parse_format(const char *text, void *field, struct reason *why);
int parse_json(const char *text, void *field, struct reason *why);

/* The field, or the default. */
const struct renderer *format_or_text(const struct renderer *format);

/*
 * The question to the engine. EXIT_DONE; or, said, EXIT_REFUSED if the options cannot be meant
 * together, or EXIT_FAILED. *ret ends with chosen_release(), also after a failure.
 */
int stats_question(const struct command *command, const struct stats_options *options,
		   struct chosen *ret);

/* Writes report to stdout as the options say, which are put into it here. */
int print_report(const struct stats_options *options, const struct chosen *chosen,
		 struct report *report);

/* Says why writing to stdout failed, unless nobody reads it; 0 and EXIT_DONE if it did not. */
int written(int err);

#endif
