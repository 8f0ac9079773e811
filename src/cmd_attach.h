/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_ATTACH_H
#define ALLOCSNAP_CMD_ATTACH_H

/* What the commands that record share. */

#include "cmd.h"
#include "collect.h"
#include "recording.h"

struct collector;

struct capture_options {
	struct recording_options recording;
	uint64_t traceback_limit, max_blocks, max_tracebacks;
	bool follow_forks;
	enum collector_unwinder unwinder;
	uint32_t domains; /* enum collector_domains; 0: not said */
};

#define FOLLOW_FORKS_DETAIL \
	"With --follow-forks every process of the machine that uses the same allocator pays for the\n" \
	"probes, though only those that are followed are recorded.\n"

extern const struct command cmd_attach, cmd_run;

extern const struct option_row capture_rows[];
extern const struct capture_options capture_defaults;

/* NULL: it failed, and that has been said. */
struct collector *open_collector(const struct capture_options *options);

#endif
