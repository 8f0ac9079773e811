// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/limits/budget_target.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/probe/attach_methods.h"
#include "collect/process/proc.h"
#include "collect/limits/limit_state.h"

/* A link is attached or detached in a millisecond or less; a perf uprobe takes a tenth of a second. */
#define STRETCH_OF_LINKS_NS 5000000
#define STRETCH_OF_EVENTS_NS 1000000000

#define QUOTA_EVERY_NS (5 * SECOND_NS)

static struct budget_terms common_terms(const struct collector *collector)
{
	return (struct budget_terms){
		.percent = collector->options.max_overhead,
		.core_ns = BUDGET_CORE_NS,
		.least_stretch_ns = probe_way_of(collector->bpf)->is_alone ? STRETCH_OF_EVENTS_NS : STRETCH_OF_LINKS_NS,
	};
}

int budgets_begin(struct collector *collector)
{
	struct budget_terms terms = common_terms(collector);
	char *mounts = collector->options.max_overhead ? proc_read(getpid(), "mountinfo", NULL) : NULL;
	int err = mounts ? cpu_quotas_find(&collector->limits->budgets.quotas, mounts) : 0;

	free(mounts);
	terms.core_ns *= sysconf(_SC_NPROCESSORS_ONLN);
	terms.is_of_core = true;
	budget_begin(&collector->limits->budgets.together, &terms);
	return err;
}

static uint64_t read_core_ns(const struct cpu_quotas *quotas, pid_t pid)
{
	char *groups = proc_text(pid, "cgroup");
	uint64_t quota_ns = groups ? cpu_quota_ns(quotas, groups) : UINT64_MAX;

	free(groups);
	return quota_ns < BUDGET_CORE_NS ? quota_ns : BUDGET_CORE_NS;
}

void target_begin_budget(const struct collector *collector, struct target *target)
{
	struct budget_terms terms = common_terms(collector);

	if (terms.percent)
		terms.core_ns = read_core_ns(&collector->limits->budgets.quotas, target->identity.pid);
	target->budget.quota_ns = monotonic_now_ns();
	budget_begin(&target->budget.limit, &terms);
}

void target_update_budget(const struct collector *collector, struct target *target)
{
	const struct cost_sum *sum = &target->now.cost;
	const struct budget_use use = {
		.cost_ns = sum->cost_ns + target->budget.own.nr * GAP_COST_NS,
		.own_ns = sum->cpu_ns > sum->cost_ns ? sum->cpu_ns - sum->cost_ns : 0,
	};
	uint64_t now_ns = monotonic_now_ns();

	if (use.cost_ns != target->budget.limit.use.cost_ns && now_ns - target->budget.quota_ns >= QUOTA_EVERY_NS) {
		target->budget.limit.terms.core_ns = read_core_ns(&collector->limits->budgets.quotas, target->identity.pid);
		target->budget.quota_ns = now_ns;
	}
	budget_update(&target->budget.limit, &use, now_ns);
}

/* The CPU time of an ended process is the kernel side's, or the last one read if that is greater. */
void target_read_cost(const struct trap_costs *costs, struct target *target, const struct process *books)
{
	uint64_t cpu_ns = books->cpu_ns;

	target->now.cost.cost_ns = cost_of_books(costs, books) + cost_of_walks(costs, books, &target->walks);
	if (!cpu_ns && (target->life.has_ended || cpu_time_read(target->identity.pid, &cpu_ns)))
		return;
	cpu_ns -= target->life.cpu_before_ns;
	if ((int64_t)(cpu_ns - target->now.cost.cpu_ns) > 0)
		target->now.cost.cpu_ns = cpu_ns;
}
