/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_PLAN_FUNCTIONS_H
#define ALLOCSNAP_COLLECT_INJECT_PLAN_FUNCTIONS_H

/* Which functions of an allocator get a jump, and to which kind of hook. */

#include <stdbool.h>

struct entry_patches;
struct inject_allocator;
struct inject_plan;
struct planned_allocator;
struct probe_info;
struct reason;

/* Whether the file has functions that give blocks and functions that free them. */
bool has_allocator(const struct entry_patches *patches);

/*
 * Fills the functions of *allocator and of *planned. A function that cannot be moved is left out if no block is missed by
 * that; -ENOTSUP if a block could be freed unseen.
 */
int plan_functions(const struct entry_patches *patches, const struct probe_info *facts,
		   struct inject_allocator *allocator, struct planned_allocator *planned, struct reason *why);

/*
 * Gives each function of the plan its site, once all allocators are in it: functions that may call another allocator take
 * the slow path. 0 or -ENOTSUP.
 */
int plan_sites(struct inject_plan *plan, struct reason *why);

#endif
