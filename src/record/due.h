/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DUE_H
#define ALLOCSNAP_DUE_H

/* For which of the traced processes it is time for a snapshot, by their triggers. */

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
	bool is_soon; /* some have risen while they were looked at: look again at once */
};

/*
 * Looks at all; those for whom it is not time yet ring the doorbell when it is. What was found is judged
 * before a drain: what it shows is not less than what was live then, however soon that goes.
 */
void due_find(struct due *due, struct collector *collector, const struct trigger_options *options);

/* TRIGGER_NONE: it was not found. */
enum trigger due_trigger(const struct due *due, pid_t pid);

void due_release(struct due *due);

#endif
