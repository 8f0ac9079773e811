/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SHARES_H
#define ALLOCSNAP_COLLECT_SHARES_H

/*
 * Budgets where the probes are everybody's: each process has one, and all together. Whoever has spent its own makes all of
 * them pause, till it has earned enough, has ended, or sleeps: one that uses no CPU time costs nothing, and the others are
 * not to wait for it. Nor are they for what is little to the machine: a hundredth of a processor is free.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/budget.h"

struct collector;

/* What processes cost now, those that have new cost or have spent theirs: of many this is read only here. */
void shares_read_costs(struct collector *collector);

/* Judges all of them, and what they cost together. */
enum budget_order shares_judge(struct collector *collector, const struct cost_sum *together, bool is_paused);

#endif
