/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_H
#define ALLOCSNAP_CMD_H

/*
 * A command is a row: what it is called, which options it takes, which function runs. Parsing,
 * error messages and help texts are made from the rows. A new command is a file cmd_NAME.c that
 * defines `const struct command cmd_NAME` and a line in main.c.
 *
 *	struct attach_options {
 *		const char *dir;
 *		uint64_t interval_ns;
 *		struct string_list label;
 *		bool quiet;
 *	};
 *
 *	static const struct option_row rows[] = {
 *		{ "output", 'o', OPTION_STRING, offsetof(struct attach_options, dir),
 *		  .arg = "DIR", .help = "where the snapshots go" },
 *		{ "interval", 0, OPTION_DURATION, offsetof(struct attach_options, interval_ns),
 *		  .arg = "TIME", .help = "a snapshot every TIME (default 10s)" },
 *		{ "label", 'l', OPTION_LIST, offsetof(struct attach_options, label),
 *		  .arg = "K=V", .help = "…; may be repeated" },
 *		{ "quiet", 'q', OPTION_FLAG, offsetof(struct attach_options, quiet),
 *		  .help = "…" },
 *		{},
 *	};
 *
 *	static int run(const void *command_options, const struct arguments *args)
 *	{
 *		const struct attach_options *options = command_options;
 *		…
 *	}
 *
 *	const struct command cmd_attach = {
 *		.name = "attach", .args = "PID…", .arg_min = 1, .arg_max = UINT_MAX,
 *		.help = "record running processes",
 *		.option = { { .row = rows } },
 *		.defaults = &(const struct attach_options){ .interval_ns = 10000000000 },
 *		.options_size = sizeof(struct attach_options),
 *		.run = run,
 *	};
 *
 * On the command line `--opt VALUE`, `--opt=VALUE`, `-o VALUE` and `-oVALUE` are the same;
 * options may follow arguments; `--` ends the options. A lone `-` is an argument. Where an
 * option is given twice, the last one counts (OPTION_LIST collects them).
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

struct reason;

/* Borrowed strings; the array itself belongs to the parser. */
struct string_list {
	const char **item;
	size_t item_nr, item_alloc;
};

/* What an option's field is, and how its value is read. */
enum option_kind {
	OPTION_FLAG = 1, /* bool; no value */
	OPTION_COUNT,	 /* uint64_t, within least … most */
	OPTION_DURATION, /* uint64_t nanoseconds, within least … most */
	OPTION_STRING,	 /* const char *, not empty */
	OPTION_LIST,	 /* struct string_list */
	OPTION_CUSTOM,	 /* whatever row->parse() writes */
};

/* A value that an option can have. */
struct option_choice {
	const char *name;
	const char *help; /* one line, or NULL */
};

/* One option; a table of them ends with an empty row. */
struct option_row {
	const char *name; /* without the dashes */
	char letter;	  /* short form, or 0 */
	enum option_kind kind;
	size_t offset;	  /* of the field in the group's struct */
	const char *arg;  /* the value's name in help texts; NULL where there is no value */
	const char *help; /* one line */
	uint64_t least;
	uint64_t most;	  /* 0: no limit */

	/*
	 * OPTION_CUSTOM: writes the field, or returns a negative errno and leaves a line that
	 * names what is right. text is NULL where the option has no value (arg is NULL).
	 */
	int (*parse)(const char *text, void *field, struct reason *why);

	/* Listed below `help`: choice number `at` into *ret; false: there are no more. */
	bool (*choice)(size_t at, struct option_choice *ret);
};

/* Options that several commands share lie in a struct of their own, at `base` of the command's. */
struct option_group {
	const struct option_row *row;
	size_t base;
};

#define COMMAND_GROUP_MAX 9

/* What is left of the command line; item[item_nr] is NULL. */
struct arguments {
	const char *const *item;
	size_t item_nr;
};

struct command {
	const char *name;   /* of a subcommand with its command's: "fleet diff" */
	const char *args;   /* of the usage line: "OLD NEW", "PID…" */
	const char *help;   /* one line */
	const char *detail; /* lines below the options in `allocsnap NAME --help`, or NULL */
	struct option_group option[COMMAND_GROUP_MAX];
	const void *defaults; /* the options before the command line is read; NULL: all zero */
	size_t options_size;
	unsigned int arg_min;
	unsigned int arg_max;	/* UINT_MAX: no limit */
	bool stop_at_first_arg; /* what follows the first argument is not ours (`run CMD -x`) */

	/* Where it has any, ended by NULL: the next word says which, and of the rest only args, help and detail count. */
	const struct command *const *subcommand;

	/* An exit status; a failure has been said, with one of the functions below. */
	int (*run)(const void *options, const struct arguments *args);
};

/* Runs a whole command line: the exit status of the program. The table ends with NULL. */
int commands_main(int argc, char **argv, const struct command *const *commands);

/*
 * For a combination of options that cannot be meant: "allocsnap: NAME: …; see 'allocsnap NAME --help'" (base/log.h). Returns
 * EXIT_REFUSED.
 */
__attribute__((format(printf, 2, 3))) int say_refusal(const struct command *command,
						      const char *fmt, ...);

#endif
