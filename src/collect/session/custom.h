/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_CUSTOM_H
#define ALLOCSNAP_COLLECT_CUSTOM_H

/* What became of the allocators of --probe: said to who records, since the name may be wrong. */

#include "collect/session/recorded.h"

struct reason;

/*
 * When a process has been probed for the first time: where its files have none of an allocator's
 * functions that give out blocks, or none that take them back, -ENOENT with a line in *why. What is
 * missing otherwise, and allocators that are not mapped yet, are notes.
 */
int custom_check(struct collector *collector, const struct target *target, struct reason *why);

/* When an object has come later: functions that are in no object become notes. */
void custom_tell(struct collector *collector, const struct target *target, uint32_t object);

#endif
