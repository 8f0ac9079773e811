/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_H
#define ALLOCSNAP_CLI_CMD_H

/*
 * A command is a row: its name, its options and the function that runs it. The parser, the error
 * messages, the help texts and the man pages all use these rows. A new command is a file cmd_NAME.c
 * that defines `const struct command cmd_NAME`, and a line in main.c.
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
 *		  .arg = "DIR", .help = "write snapshots below DIR" },
 *		{ "interval", 0, OPTION_DURATION, offsetof(struct attach_options, interval_ns),
 *		  .arg = "TIME", .help = "take a snapshot every TIME" },
 *		{ "label", 'l', OPTION_LIST, offsetof(struct attach_options, label),
 *		  .arg = "K=V", .help = "…; repeatable" },
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
 *		.example = "sudo allocsnap attach 4711",
 *		.option = { { rows, .title = "Output" } },
 *		.defaults = &(const struct attach_options){ .interval_ns = 10000000000 },
 *		.options_size = sizeof(struct attach_options),
 *		.run = run,
 *	};
 *
 * On the command line `--opt VALUE`, `--opt=VALUE`, `-o VALUE` and `-oVALUE` are the same;
 * options may follow arguments; `--` ends the options. A lone `-` and `-1` are arguments. If an option is
 * given twice, the last one counts (OPTION_LIST collects all of them).
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

struct reason;

/* The parser owns the array; the strings are borrowed. */
struct string_list {
	const char **item;
	size_t item_nr, item_alloc;
};

/* The type of an option's field, and how the parser reads its value. */
enum option_kind {
	OPTION_FLAG = 1, /* bool that becomes true; no value */
	OPTION_CLEAR,	 /* bool that becomes false; no value */
	OPTION_COUNT,	 /* uint64_t, within least … most */
	OPTION_DURATION, /* uint64_t nanoseconds, within least … most */
	OPTION_STRING,	 /* const char *, not empty */
	OPTION_LIST,	 /* struct string_list */
	OPTION_CHOICE,	 /* an enum: the number of one of the choices */
	OPTION_CUSTOM,	 /* row->parse() writes the field */
};

/* One of the values that an option accepts. */
struct option_choice {
	const char *name;
	const char *help; /* one line, or NULL */
	unsigned int number; /* OPTION_CHOICE: what the field becomes */
};

/* NULL: none of the choices, a table that ends with an empty one, is called like the first `len` bytes of name. */
const struct option_choice *choice_named(const struct option_choice *choices, const char *name, size_t len);

/* One option. A table of them ends with an empty row. */
struct option_row {
	const char *name; /* without the dashes */
	char letter;	  /* short form, or 0 */
	enum option_kind kind;
	size_t offset;	  /* of the field in the group's struct */
	const char *arg;  /* name of the value in help texts; NULL: the option takes no value */
	const char *help; /* one or two short sentences, without the default */
	const char *without_value; /* what "--NAME" alone stands for; then a value is only read from "--NAME=VALUE" */
	uint64_t least;
	uint64_t most;	  /* 0: no limit */

	/*
	 * OPTION_CUSTOM: writes the field, or returns a negative errno and a line in *why that names
	 * the valid values. text is NULL if the option takes no value (arg is NULL).
	 */
	int (*parse)(const char *text, void *field, struct reason *why);

	/*
	 * Help lists these below `help`: a table that ends with an empty choice, or a function that writes choice
	 * number `at` to *ret; false: there are no more.
	 */
	const struct option_choice *choices;
	bool (*choice)(size_t at, struct option_choice *ret);

	/*
	 * Help shows the command's default, which it reads from the field unless one of these two is set:
	 * the default as a text, or whether the command behaves by default as if the option were given.
	 */
	const char *default_text;
	bool (*is_default)(const void *field);

	/*
	 * If rows of a command have ranks, its help lists the first of them in this order, 1 being what people need
	 * most, with `brief` in place of `help`, if it is set; --help=all lists all rows. 0: no rank.
	 */
	unsigned int rank;
	const char *brief; /* one line, or two */
};

/*
 * A table of options under a heading of the help text. Options that several commands share lie in a
 * struct of their own, at `base` of the command's struct. Groups in a row with the same title share
 * one heading.
 */
struct option_group {
	const struct option_row *row;
	size_t base;
	const char *title; /* NULL: no heading */
};

#define COMMAND_GROUP_MAX 12

/* The arguments without the options; item[item_nr] is NULL. */
struct arguments {
	const char *const *item;
	size_t item_nr;
};

struct command {
	const char *name;    /* a subcommand has its parent's name in front: "fleet diff" */
	const char *args;    /* for the usage line: "OLD NEW", "PID…" */
	const char *help;    /* one line */
	const char *detail;  /* text below the options (cli/cmd_help.h has its form), or NULL */
	const char *brief;   /* in the place of detail where help lists some options only; or NULL */
	const char *example; /* one command line, or NULL */
	struct option_group option[COMMAND_GROUP_MAX];
	const void *defaults; /* of options_size bytes; NULL: all zero */
	size_t options_size;
	unsigned int arg_min;
	unsigned int arg_max;	/* UINT_MAX: no limit */
	bool pages; /* its output may go through a pager (cli/pager.h) */
	bool has_own_screen; /* a status line or a view: the progress of works within it is not shown */
	bool stop_at_first_arg; /* options after it belong to another program (`run CMD -x`) */

	/*
	 * If not NULL: a list ended by NULL. The next word selects one of them, and of this row only name,
	 * args, help, detail and example are used.
	 */
	const struct command *const *subcommand;

	/* Returns an exit status. It has reported a failure already, with one of the functions below. */
	int (*run)(const void *options, const struct arguments *args);
};

/* Visits each row of each group of a command. */
#define for_each_row(command, group, row) \
	for (const struct option_group *group = (command)->option; \
	     group < (command)->option + COMMAND_GROUP_MAX; group++) \
		for (const struct option_row *row = group->row; row && row->name; row++)

/* Runs a whole command line and returns the exit status of the program. The table ends with NULL. */
int commands_main(int argc, char **argv, const struct command *const *commands);

/*
 * Reports options that contradict each other: "allocsnap: NAME: …; see 'allocsnap NAME --help'"
 * (base/log.h). Returns EXIT_REFUSED.
 */
__attribute__((format(printf, 2, 3))) int log_refusal(const struct command *command,
						      const char *fmt, ...);

#define REMOVED_TEXT_MAX 256

/*
 * Commands, options and values that an earlier version had: who uses one gets a line that says what to use now. Writes
 * "trend was removed; use …" and returns text, or returns NULL if there never was such a word: a command of "fleet", an
 * option of "record" with its dashes, an ending of "convert". The first `len` bytes of `word` count. For the value of an
 * option, command is NULL.
 */
const char *removed_word_format(char text[REMOVED_TEXT_MAX], const char *command, const char *word, size_t len);

#endif
