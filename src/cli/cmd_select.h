/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_SELECT_H
#define ALLOCSNAP_CLI_CMD_SELECT_H

/*
 * The options that stats, diff and convert share: they select blocks, and the frame at which
 * tracebacks start. A command has a struct select_options in its own struct and SELECT_GROUPS in its
 * groups.
 */

#include "cli/cmd.h"
#include "engine.h"

struct snapshot;

/* A number and its text on the command line; text is NULL if the option was not given. */
struct said {
	const char *text;
	uint64_t value;
};

struct select_options {
	struct string_list include, exclude;
	struct said min_size, max_size; /* bytes */
	struct said min_age, max_age;	/* ns */
	struct said thread;
	bool no_gap_blocks;
	struct string_list skip, project;
	bool keep_wrappers;
	bool tracemalloc;
	const char *suppressions; /* a file; NULL: none */
};

/* Filters by place of allocation, filters by other facts of a block, and where tracebacks start. */
extern const struct option_row filter_rows[], block_rows[], wrapper_rows[];

/* --suppressions, for commands that ask what is wrong: leaks and diff. */
extern const struct option_row suppression_rows[];
#define SELECT_GROUPS(base) \
	{ filter_rows, base, "Filters" }, { block_rows, base, "Filters" }, { wrapper_rows, base, "Own frames" }

/* For the command's detail, which has one paragraph a line (cli/cmd_help.h). */
#define SELECT_DETAIL \
	"SPEC is PATTERN[:LINENO] for a file, or KEY=VALUE,... with the keys file, line, function, object and " \
	"domain. All keys must match one frame: the first own frame (see Own frames) or, with the word " \
	"all-frames, any frame after it. Patterns: * ? [a-z] [!x]; * also matches /. A pattern on functions is " \
	"compared with the name without return type, parameters and template arguments: shop::Cache::put. With < in " \
	"it, template arguments count; with ( in it, the name in full may match. Examples:\n" \
	"  --include 'src/*'  --include 'src/cart.c:31'\n" \
	"  --exclude 'function=g_*,all-frames'  --exclude domain=1\n" \
	"  --include 'object=*/libssl.so*'"

/* The same for --suppressions. */
#define SUPPRESSIONS_DETAIL \
	"A file of suppressions has a pattern on each line, and comments that begin with #. Blocks do not count if " \
	"the function, source file or object of any frame of their traceback matches. Suppressions that match " \
	"nothing are reported."

/* The options in the engine's form. engine.select.filter points to the array `filter`. */
struct chosen {
	struct engine_options engine;
	struct filter *filter;
	size_t filter_nr;
};

/*
 * Returns EXIT_DONE; or, reported, EXIT_REFUSED or EXIT_FAILED. The options must outlive *ret.
 * chosen_release() frees *ret, also after a failure.
 */
int select_options_resolve(const struct command *command, const struct select_options *options, struct chosen *ret);
void chosen_release(struct chosen *chosen);

/* Whether the options can leave out blocks. */
bool is_selecting(const struct select_options *options);

/* Filters that match no block of any snapshot. */
struct unmatched {
	size_t nr;
	bool includes; /* one of them is an --include */
};

/* Finds them and reports each: most likely it is a mistake. */
struct unmatched log_unmatched(const struct select_options *options, const struct chosen *chosen,
			       const struct snapshot *const *snapshot, size_t snapshot_nr);

/*
 * The options in the form of a command line, "--include src/cart.c --min-size 4K". NULL with errno 0 if
 * no option leaves out blocks; NULL with errno ENOMEM if memory ran out. The caller frees the text.
 */
char *select_text(const struct select_options *options);

#endif
