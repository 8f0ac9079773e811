/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_BUDGET_SHARED_H
#define ALLOCSNAP_COLLECT_SESSION_BUDGET_SHARED_H

/*
 * Budgets for shared probes: each process has a budget, and so have all processes together. If one process
 * exceeds its budget, probing pauses for all of them until that process is within budget again, exits, or goes
 * idle: an idle process costs nothing, and the others need not wait for it. The same holds for the sum of all.
 * Recording cost below 1 % of a CPU never causes a pause.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/budget.h"

struct collector;
struct targets;
struct trap_costs;

/*
 * Reads the cost of processes that have new cost or have exceeded their budget. In system-wide mode the cost of
 * a process without other news is read only here.
 */
void shares_read_costs(const struct trap_costs *costs, const struct targets *targets);

/* Judges each process, and all of them together. */
enum budget_order shares_judge(struct collector *collector, const struct cost_sum *together, bool is_paused);

#endif
