// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/session/budget_shared.h"

#include "base/clock.h"
#include "base/reason.h"
#include "collect/session/budget_pause.h"
#include "collect/session/session.h"

#define NAMED_MOST 32 /* named processes: a machine that compiles would fill the journal */

/* Skips processes without new cost: reading the clocks of hundreds of processes takes a while. */
void shares_read_costs(const struct trap_costs *costs, const struct targets *targets)
{
	for (size_t i = 0; i < targets->target_nr; i++) {
		struct target *target = targets->target[i];
		const struct process *books = collector_books_of(targets, target->slot);

		if (target->life.has_ended || books->image != target->now.books.image)
			continue;
		if (target->budget.share.is_spent || cost_of_books(costs, books) != target->now.cost.cost_ns)
			target_read_cost(costs, target, books);
	}
}

static void note_spent_process(struct collector *collector, struct target *target)
{
	struct reason why;

	if (target->budget.share.is_named || collector->budgets.named_nr >= NAMED_MOST)
		return;
	target->budget.share.is_named = true;
	reason_set(&why, 0, "%s (PID %d) has spent its budget of %u percent: while it runs the recording pauses for all%s",
		   target->identity.comm, target->identity.pid, collector->options.max_overhead,
		   ++collector->budgets.named_nr < NAMED_MOST ? "" : "; no more of these are named");
	notes_add(&collector->notes, why.text);
}

static bool is_spent(const struct budgets *budgets, struct share *share, const struct cost_sum *cost, uint64_t now_ns)
{
	share->budget = budgets->pausing.budget;
	return share_is_spent(share, cost, now_ns);
}

enum budget_order shares_judge(struct collector *collector, const struct cost_sum *together, bool is_paused)
{
	uint64_t now_ns = monotonic_now_ns();
	bool is_any = is_spent(&collector->budgets, &collector->budgets.together, together, now_ns);

	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if (target->life.has_ended ||
		    !is_spent(&collector->budgets, &target->budget.share, &target->now.cost, now_ns))
			continue;
		is_any = true;
		note_spent_process(collector, target);
	}
	if (is_any)
		return is_paused ? BUDGET_AS_IT_IS : BUDGET_PAUSE;
	return is_paused ? BUDGET_RESUME : BUDGET_AS_IT_IS;
}
