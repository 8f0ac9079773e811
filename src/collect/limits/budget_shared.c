// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/limits/budget_shared.h"

#include "collect/limits/budget_pause.h"
#include "collect/limits/limit_state.h"

/*
 * Skips processes without new cost, unless what they use themselves gives them credit again: reading the clocks of
 * hundreds of processes takes a while.
 */
void shares_read_costs(const struct trap_costs *costs, const struct targets *targets)
{
	for (size_t i = 0; i < targets->target_nr; i++) {
		struct target *target = targets->target[i];
		const struct process *books = collector_books_of(targets, target->slot);

		if (target->life.has_ended || books->image != target->now.books.image)
			continue;
		if (cost_of_books(costs, books) + target->walks.ns != target->now.cost.cost_ns ||
		    !budget_is_full(&target->budget.limit))
			target_read_cost(costs, target, books);
	}
}

void shares_set_rate(struct collector *collector, uint32_t rate)
{
	if (collector->bpf->bss->shared_sample_rate != rate)
		__atomic_store_n(&collector->bpf->bss->shared_sample_rate, rate, __ATOMIC_RELAXED);
}

bool shares_judge(struct collector *collector, uint64_t together_ns, uint64_t now_ns)
{
	struct budget *together = &collector->limits->budgets.together;
	bool is_any;

	budget_update(together, &(struct budget_use){ .cost_ns = together_ns }, now_ns);
	shares_set_rate(collector, together->rate);
	is_any = together->is_spent;
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if (target->life.has_ended)
			continue;
		target_update_budget(collector, target);
		budget_apply_rate(collector, target, together->rate);
		is_any |= budget_asks_for_pause(target);
	}
	return is_any;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t shares_wait_ns(const struct collector *collector, unsigned int processors)
{
	uint64_t wait_ns = budget_wait_ns(&collector->limits->budgets.together, processors);

	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (!collector->targets.target[i]->life.has_ended)
			wait_ns = sooner(wait_ns,
					 budget_wait_ns(&collector->targets.target[i]->budget.limit, processors));
	return wait_ns;
}
