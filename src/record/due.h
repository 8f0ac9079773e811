/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DUE_H
#define ALLOCSNAP_DUE_H

/* Finds the traced processes whose triggers ask for a snapshot. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "record/triggers.h"

struct collector;

struct due {
	struct due_process {
		pid_t pid;
		enum trigger trigger;
	} *process;
	size_t process_nr, process_alloc;
	bool is_soon; /* a process has grown during the look: look again at once */
};

/*
 * Looks at all processes. A process that is not due yet rings the doorbell when it is. The look comes before the
 * drain, so the snapshot shows at least what was live then, even if it is freed right after.
 */
void due_find(struct due *due, struct collector *collector, const struct trigger_options *options);

/* Returns TRIGGER_NONE if the process is not due. */
enum trigger due_trigger(const struct due *due, pid_t pid);

void due_release(struct due *due);

#endif
