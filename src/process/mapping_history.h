/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_MAPPING_HISTORY_H
#define ALLOCSNAP_PROCESS_MAPPING_HISTORY_H

/*
 * Finds the code that was mapped at an address at an earlier time. Other code may take the place of a plugin's that was
 * unloaded, and a block of the plugin is resolved only at the next drain. New code runs only after its event, so the
 * address means the old code for exactly the blocks born before the event, and the new code for all later ones.
 */

#include "process/mappings.h"

/* Keeps a mapping, or a part of one, in whose place another one has come. 0 or -ENOMEM. */
int history_add(struct mappings *mappings, const struct mapping *old, const struct mapping *by);

/* Whether something replaced lay in the range, or may have. */
bool history_has(const struct mappings *mappings, uint64_t start, uint64_t end);

/* Call after each drain: forgets what was replaced before the previous one. */
void history_end_pass(struct mappings *mappings);

#define HISTORY_NOW UINT64_MAX
#define HISTORY_ANY 0 /* no time is known */

/*
 * The mapping that held an address at a time, or NULL. *ret_is_unsure, if it is NULL: which one is not known, because no
 * event reported the change, or because the history was too long.
 */
const struct mapping *history_find(const struct mappings *mappings, uint64_t address, uint64_t time_ns,
				   bool *ret_is_unsure);

struct history_times {
	uint64_t *time;
	size_t time_nr, time_alloc;
};

/* Adds the times, later than after_ns, at which the address may have come to mean other code. 0 or -ENOMEM. */
int history_times(const struct mappings *mappings, uint64_t address, uint64_t after_ns, struct history_times *times);

#endif
