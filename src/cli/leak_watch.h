/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_LEAK_WATCH_H
#define ALLOCSNAP_CLI_LEAK_WATCH_H

/* Records processes for a while, as attach does, and keeps the paths of the snapshots. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cmd_attach.h"
#include "cli/find_snapshot.h"
#include "cli/temporary_folder.h"

struct leak_watch {
	struct snapshot_paths paths;
	struct temporary_folder folder; /* none: the user named it */
	bool is_out_of_memory;
	bool is_something_left; /* of an injected sampler, in a process or its children */
};

/* The processes that are observed. */
struct watched {
	pid_t *pid;
	size_t pid_nr, pid_alloc;
};

/*
 * Attaches to the processes, records them for watch_ns, and detaches. capture->recording.dir NULL: into a temporary
 * folder. Returns an exit status; logs failures. leak_watch_release() removes temporary files, also after a failure.
 */
int leak_watch_record(const struct command *command, const struct capture_options *capture,
		      const struct watched *watched, uint64_t watch_ns, struct leak_watch *ret);
void leak_watch_release(struct leak_watch *watch);

#endif
