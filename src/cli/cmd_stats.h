/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_STATS_H
#define ALLOCSNAP_CLI_CMD_STATS_H

/* The options that stats and diff share, and reports on stdout. */

#include "cli/cmd.h"
#include "cli/cmd_select.h"
#include "engine.h"

struct renderer;
struct report;
struct snapshot;

#define KEY_TYPE_UNSAID KEY_TYPE_NR
#define TOP_UNSAID UINT64_MAX
#define STATS_DEFAULTS .key_type = KEY_TYPE_UNSAID, .top = TOP_UNSAID

struct stats_options {
	enum key_type key_type; /* or KEY_TYPE_UNSAID */
	bool cumulative;
	enum measure measure;
	uint64_t top; /* TOP_UNSAID: the default of the format */
	bool oldest_first;
	bool full_names;
	bool at_peak; /* stats only */
	const char *source_dir;
	const struct renderer *format; /* NULL: text */
	const char *output; /* a file; NULL: standard output */
	struct select_options select;
};

extern const struct command cmd_stats, cmd_diff, cmd_show;

/* How blocks are grouped, what is added up, how the report is written. */
extern const struct option_row group_rows[], measure_rows[], output_rows[];
#define STATS_GROUPS(base) \
	{ group_rows, base, "Report" }, { measure_rows, base, "Report" }, { output_rows, base, "Report" }

/* parse() and choice() of --group-by: an enum key_type field. */
int parse_key_type(const char *text, void *field, struct reason *why);
bool key_type_choice(size_t at, struct option_choice *ret);

/* parse() and choice() of --sort: an enum sort_order field. */
int parse_sort_order(const char *text, void *field, struct reason *why);
bool sort_order_choice(size_t at, struct option_choice *ret);

/* parse() of --format and --json, also for `show`: they write a const struct renderer * field. */
int parse_format(const char *text, void *field, struct reason *why);
int parse_json(const char *text, void *field, struct reason *why);

/* The format itself, or the default for NULL. */
const struct renderer *format_or_text(const struct renderer *format);

/*
 * Translates the options for the engine. Returns EXIT_DONE; or, reported, EXIT_REFUSED if options
 * contradict each other, or EXIT_FAILED. chosen_release() frees *ret, also after a failure.
 */
int stats_question(const struct command *command, const struct stats_options *options,
		   struct chosen *ret);

/* Refuses a format that has no negative numbers. Returns EXIT_DONE or EXIT_REFUSED. */
int check_diff_format(const struct command *command, const struct stats_options *options);

/* Answers the question about a snapshot and prints the report. name: of the snapshot. Returns an exit status. */
int report_statistics(const struct stats_options *options, const struct chosen *chosen,
		      const struct snapshot *snapshot, const char *name);

/*
 * Copies the output options into *report and writes it to stdout, or to the file that they name. Returns an exit status: EXIT_FAILED also if an
 * --include matches no block, which is most likely a mistake.
 */
int print_report(const struct stats_options *options, const struct chosen *chosen,
		 struct report *report);

/* Reports err, the result of writing to stdout, unless the reader closed the pipe. Returns an exit status. */
int report_write_error(int err);

#endif
