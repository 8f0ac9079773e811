/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_ATTACH_H
#define ALLOCSNAP_CLI_CMD_ATTACH_H

/* Options and functions that attach, run and record share. */

#include "cli/cmd.h"
#include "cli/find_snapshot.h"
#include "collect.h"
#include "record/recording.h"

struct collector;

/* --sample: a mean distance in bytes, or pools of CPython, perhaps with the blocks that lie in no pool. */
struct capture_sample {
	uint64_t bytes;
	bool by_pools, with_large;
};

struct capture_options {
	struct recording_options recording;
	uint64_t traceback_limit, max_blocks, max_tracebacks, max_memory;
	struct capture_sample sample;
	uint64_t min_size, max_size;
	uint64_t max_overhead;
	uint64_t sampler_rate; /* samples a second; 0: the default */
	bool follow_forks, children, no_names, no_return_probes, no_sampler, retag, no_retag, java_gc;
	enum collector_unwinder unwinder;
	enum collector_python_frames python_frames;
	uint32_t domains; /* enum collector_domains; 0: the default */
	struct string_list probe, label;
	const char *run_user; /* run only; NULL: our own user */
	uint64_t fast_bytes; /* run only: mean bytes between the samples of the preloaded sampler; 0: do not preload it */
	bool exact; /* run only: hooks that enter every block, as with --inject=exact */
	uint64_t go_profile; /* attach and leaks: switch on the profile of a Go program */
	uint64_t inject_bytes; /* attach and leaks: the same of the sampler to inject; 0: do not inject it */
};

/* Details have one paragraph a line (cli/cmd_help.h). */
#define FOLLOW_FORKS_DETAIL \
	"With --follow-forks, every process on the machine that uses the same allocator pays for the probes. " \
	"Only the followed processes are recorded.\n"

#define INJECT_DETAIL \
	"--inject is for a process that cannot be restarted and allocates too much for probes on malloc. It stops the " \
	"process's threads for some milliseconds and replaces pages of its allocator by copies that call a sampler, or " \
	"with =exact hooks that enter every block; of a Python, =exact replaces pointers to its allocators instead. " \
	"At the end of the recording, however it ends, it gives the pages back. If a check fails, --inject is " \
	"refused, and nothing changes. 'allocsnap doctor PID' checks beforehand. If something of the sampler stays, " \
	"the exit status is 1.\n"

#define SUDO_DETAIL \
	"\n" \
	"Behind sudo, new files and folders belong to the user who ran it, unless -o leads to a folder of another " \
	"user.\n"

#define PROBE_DETAIL \
	"\n" \
	"SPEC describes an allocator: name=NAME,object=FILE and its functions, separated by commas. FILE is a path, " \
	"a pattern for a path or a base name, or exe for the program itself. A function is one of:\n" \
	"  alloc=SYM(size=N)            alloc=SYM(count=N,size=M)\n" \
	"  alloc=SYM(bytes=NUMBER)      realloc=SYM(ptr=N,size=M)\n" \
	"  free=SYM(ptr=N)\n" \
	"or a USDT probe that the program passes when it has given out a block, and before it takes one back:\n" \
	"  alloc=usdt:PROVIDER:NAME(ptr=N,size=M)    free=usdt:PROVIDER:NAME(ptr=N)\n" \
	"N and M are the positions of arguments, 1 to 6. out=N says that argument N points to where the function " \
	"stores the block's address. size=N:32 says that the argument is an int or unsigned.\n" \
	"The word wraps excludes malloc calls that the allocator makes itself. The word throws says that C++ " \
	"exceptions leave its functions; for C++ symbols that is assumed.\n" \
	"  --probe 'name=pool,object=exe,alloc=pool_alloc(size=2),free=pool_free(ptr=2)'\n"

extern const struct command cmd_attach, cmd_run, cmd_record;

/* CAPTURE_GROUPS() is for the command's options; a struct capture_options lies at base. */
extern const struct option_row capture_output_rows[], capture_time_rows[], capture_what_rows[],
	capture_stack_rows[], capture_cost_rows[], capture_inject_rows[], capture_children_rows[];
#define CAPTURE_GROUPS(base) \
	{ capture_output_rows, base, "Output" }, { capture_time_rows, base, "When to take snapshots" }, \
	{ capture_what_rows, base, "What to record" }, { capture_stack_rows, base, "Tracebacks" }, \
	{ capture_cost_rows, base, "Cost and memory" }

extern const struct capture_options capture_defaults;

/* The value of --sample. */
int parse_sample(const char *text, void *field, struct reason *why);
bool is_sample_chosen(const struct capture_options *options);

/* An option that is about Python's objects only, so that it stands for --domain python; or NULL. */
const char *python_option_of(const struct capture_options *options);

#define CAPTURE_DEFAULTS { .recording = { .dir = DATA_DIR, .interval_ns = 10000000000 } }

/* The part of the options that recording itself uses, with the place (cli/recording_place.h). */
struct recording_options capture_recording_options(const struct capture_options *options);

/* Returns an exit status: EXIT_REFUSED, reported, if --probe, --label or the sizes are not valid. */
int check_capture(const struct command *command, const struct capture_options *options);

/* NULL: it failed and reported why. */
struct collector *capture_open_collector(const struct capture_options *options);

/* Injects samplers into processes that are to be started, if the options say so. Returns an exit status. */
int inject_processes(struct collector *collector, const struct capture_options *options, const pid_t *pid, size_t nr);

/* Starts to record processes. Returns an exit status, and reports a failure. */
int start_processes(struct collector *collector, const pid_t *pid, size_t nr);

/*
 * Takes injected samplers out, logs what became of them, and closes the collector. NULL is allowed. Returns an exit
 * status: EXIT_FAILED if something stays in a process.
 */
int capture_close_collector(struct collector *collector);

struct collector_options;

/* The same; *more has the settings that no capture option covers. */
struct collector *capture_open_collector_with(const struct capture_options *options,
				    const struct collector_options *more);

#endif
