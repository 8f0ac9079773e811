/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_STATS_H
#define ALLOCSNAP_CMD_STATS_H

/* What the commands that read snapshot files share: opening them, and stats' options. */

#include "cmd.h"
#include "engine.h"

struct renderer;
struct report;
struct snapshot;

#define KEY_TYPE_UNSAID KEY_TYPE_NR

struct stats_options {
	enum key_type key_type; /* or KEY_TYPE_UNSAID */
	bool cumulative;
	uint64_t top; /* TOP_UNSAID: as the format has it */
	uint64_t min_age_ns;
	struct string_list skip;
	bool keep_wrappers;
	bool oldest_first;
	const struct renderer *format; /* NULL: text */
};

#define TOP_UNSAID UINT64_MAX

extern const struct command cmd_stats, cmd_diff, cmd_show;

extern const struct option_row stats_rows[];
extern const struct stats_options stats_defaults;

/* What to group by, also where the command line does not say. */
enum key_type stats_key_type(const struct stats_options *options);

/* --json and --format of `show`, too: parse() functions of a const struct renderer * field. */
int parse_format(const char *text, void *field, struct reason *why);
int parse_json(const char *text, void *field, struct reason *why);

/* The field, or the default. */
const struct renderer *format_or_text(const struct renderer *format);

/* Opens a file and says its losses on stderr. NULL: it failed, and that has been said. */
struct snapshot *open_snapshot(const char *path);

/* EXIT_REFUSED, said, if the options cannot be meant together; 0. */
int check_stats_options(const struct command *command, const struct stats_options *options);

struct engine_options engine_options(const struct stats_options *options);

/* Writes report to stdout as the options say; its top and oldest_first are set here. */
int print_report(const struct stats_options *options, struct report *report);

/* Says why writing to stdout failed, unless nobody reads it; 0 and EXIT_DONE if it did not. */
int written(int err);

#endif
