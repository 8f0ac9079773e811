/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_LEAK_WATCH_H
#define ALLOCSNAP_CLI_LEAK_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "cli/find_snapshot.h"
#include "cli/temporary_folder.h"

struct arguments;
struct capture_options;
struct command;

/* Records processes for a while, as attach does, and keeps the paths of the snapshots. */
struct leak_watch {
	struct snapshot_paths paths;
	struct temporary_folder folder; /* none: the user named it */
	struct reason way; /* how it is observed, if that was not asked for */
	size_t process_nr;
	bool is_out_of_memory;
	bool is_something_left; /* of an injected sampler, in a process or its children */
};

/*
 * Attaches to the processes that the arguments name, records them for watch_ns, and detaches. capture->recording.dir NULL: into a temporary
 * folder. Returns an exit status; logs failures. leak_watch_release() removes temporary files, also after a failure.
 */
int leak_watch_record(const struct command *command, const struct capture_options *capture, const struct arguments *args,
		      uint64_t watch_ns, struct leak_watch *ret);
void leak_watch_release(struct leak_watch *watch);

#endif
