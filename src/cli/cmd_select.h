/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_SELECT_H
#define ALLOCSNAP_CMD_SELECT_H

/*
 * Which blocks take part, and where their tracebacks start: the options that stats, diff and
 * convert share. A command puts a struct select_options into its own and SELECT_GROUPS into its
 * groups.
 */

#include "cli/cmd.h"
#include "engine.h"

struct snapshot;

/* A number, and how it was written; text is NULL where the option was not given. */
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
	struct string_list skip;
	bool keep_wrappers;
};

/* By where blocks were allocated, by what else is known of a block, where tracebacks start. */
extern const struct option_row filter_rows[], block_rows[], wrapper_rows[];
#define SELECT_GROUPS(base) { filter_rows, base }, { block_rows, base }, { wrapper_rows, base }

/* For the command's detail. */
#define SELECT_DETAIL \
	"SPEC is PATTERN[:LINENO] for a file, or KEY=VALUE,... with the keys file, line, function, object\n" \
	"and domain, all of them true of one frame: the most recent one that is no wrapper or, with the\n" \
	"word all-frames, any. Patterns: * ? [a-z] [!x]; * crosses /. Examples:\n" \
	"  --include 'src/*'  --include 'src/cart.c:31'  --exclude 'function=g_*,all-frames'\n" \
	"  --include 'object=*/libssl.so*'  --exclude domain=1"

/* The options as the engine wants them; filter holds what engine.select.filter points to. */
struct chosen {
	struct engine_options engine;
	struct filter *filter;
	size_t filter_nr;
};

/*
 * EXIT_DONE, or EXIT_REFUSED or EXIT_FAILED, which has been said. The options must outlive
 * *ret, which ends with chosen_release(), also after a failure.
 */
int choose(const struct command *command, const struct select_options *options, struct chosen *ret);
void chosen_release(struct chosen *chosen);

/* May blocks be left out? */
bool is_selecting(const struct select_options *options);

/*
 * Says of each filter that matches no block of any of the snapshots that it does: most likely it
 * is not what was meant. Returns how many.
 */
size_t say_unmatched(const struct select_options *options, const struct chosen *chosen,
		     const struct snapshot *const *snapshot, size_t snapshot_nr);

/*
 * The options as they are written on a command line, "--include src/cart.c --min-size 4K"; NULL with
 * errno 0 where all blocks take part, with errno ENOMEM without memory. The caller frees it.
 */
char *select_text(const struct select_options *options);

#endif
