/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_USER_ALLOCATOR_PROBES_H
#define ALLOCSNAP_COLLECT_SESSION_USER_ALLOCATOR_PROBES_H

/* Reports what happened to the allocators of --probe: the user may have misspelt a name. */

#include "collect/session/session.h"

struct reason;

/*
 * Called when a process has been probed for the first time. Returns -ENOENT with a line in *why if the process's
 * files have none of an allocator's functions that give out blocks, or none that take them back. Other missing
 * functions, and allocators that are not mapped yet, become notes.
 */
int user_allocators_check(struct collector *collector, const struct target *target, struct reason *why);

/* Called when a new object has been probed: its missing functions become notes. */
void user_allocators_report_missing(struct collector *collector, const struct target *target, uint32_t object);

#endif
