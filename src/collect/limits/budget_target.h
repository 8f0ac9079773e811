/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LIMITS_BUDGET_TARGET_H
#define ALLOCSNAP_COLLECT_LIMITS_BUDGET_TARGET_H

/* The budget of one process, and the one of all: what it is of, and what was used. */

struct collector;
struct process;
struct target;
struct trap_costs;

/* Finds where quotas are, and begins the budget that all processes have together. 0 or -ENOMEM. */
int budgets_begin(struct collector *collector);

/* Begins the budget of a process. */
void target_begin_budget(const struct collector *collector, struct target *target);

/* Enters what recording the process has cost, what it has used itself, and a quota that has changed. */
void target_update_budget(const struct collector *collector, struct target *target);

/* Updates the cost of recording a process from its accounting. */
void target_read_cost(const struct trap_costs *costs, struct target *target, const struct process *books);

#endif
