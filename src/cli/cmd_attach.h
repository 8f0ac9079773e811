/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_ATTACH_H
#define ALLOCSNAP_CMD_ATTACH_H

/* What the commands that record share. */

#include "cli/cmd.h"
#include "collect.h"
#include "record/recording.h"

struct collector;

struct capture_options {
	struct recording_options recording;
	uint64_t traceback_limit, max_blocks, max_tracebacks, max_memory;
	uint64_t sample_bytes, min_size, max_size;
	uint64_t max_overhead;
	bool follow_forks, no_names, no_return_probes;
	enum collector_unwinder unwinder;
	uint32_t domains; /* enum collector_domains; 0: not said */
	struct string_list probe, label;
};

#define FOLLOW_FORKS_DETAIL \
	"With --follow-forks every process of the machine that uses the same allocator pays for the\n" \
	"probes, though only those that are followed are recorded.\n"

#define PROBE_DETAIL \
	"\n" \
	"--probe SPEC names an allocator: name=NAME,object=FILE and functions, with commas between.\n" \
	"FILE is a path, a pattern of it or of its base name, or exe, the program itself. A function is\n" \
	"alloc=SYM(size=N), alloc=SYM(count=N,size=M), alloc=SYM(bytes=NUMBER), realloc=SYM(ptr=N,size=M)\n" \
	"or free=SYM(ptr=N); N is an argument's position, 1 to 6, out=N where the block's address is\n" \
	"stored; size=N:32 is an int or unsigned. The word wraps says that malloc inside it is\n" \
	"not to be counted, too, the word throws that C++ exceptions leave its functions (known of\n" \
	"symbols that are C++'s):\n" \
	"  --probe 'name=pool,object=exe,alloc=pool_alloc(size=2),free=pool_free(ptr=2)'\n"

extern const struct command cmd_attach, cmd_run, cmd_record;

extern const struct option_row capture_rows[];
extern const struct capture_options capture_defaults;

/* What they say of the time between the first probe and the last snapshot. */
struct recording_options recording_of(const struct capture_options *options);

/* An exit status: EXIT_REFUSED, with a line, where --probe, --label or sizes cannot be meant. */
int check_capture(const struct command *command, const struct capture_options *options);

/* NULL: it failed, and that has been said. */
struct collector *open_collector(const struct capture_options *options);

struct collector_options;

/* The same; *more has what is not among capture_rows. */
struct collector *open_collector_of(const struct capture_options *options,
				    const struct collector_options *more);

/*
 * Gives up, for good, the capabilities that recording into dir does not go on to need, but for `also`: when
 * all is loaded and the program of `run` has been started, as it was meant to be. EXIT_FAILED, with a line.
 */
int drop_privileges(const struct collector *collector, const char *dir, uint64_t also);

#endif
