// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/cost_watch.h"

#include <stdio.h>

#include "base/units.h"

/* After an exec, or with another way to read it, a sum may be less than before. */
static uint64_t more_than_before(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static bool is_much(const struct cost_look *part)
{
	uint64_t own_ns = more_than_before(part->sum.cpu_ns, part->sum.cost_ns), least_ns = part->now_ns / COST_IDLE_PARTS;

	return part->trap_nr >= COST_TRAPS_LEAST && part->sum.cost_ns > (own_ns > least_ns ? own_ns : least_ns) / 2;
}

static struct cost_look part_until(const struct cost_look *since, const struct cost_look *now)
{
	return (struct cost_look){
		.now_ns = more_than_before(now->now_ns, since->now_ns),
		.trap_nr = more_than_before(now->trap_nr, since->trap_nr),
		.sum = { .cpu_ns = more_than_before(now->sum.cpu_ns, since->sum.cpu_ns),
			 .cost_ns = more_than_before(now->sum.cost_ns, since->sum.cost_ns) },
	};
}

bool cost_watch_wants(struct cost_watch *watch, uint64_t started_ns, const struct cost_look *now)
{
	struct cost_look part;

	watch->since.now_ns = watch->since.now_ns ?: started_ns;
	part = part_until(&watch->since, now);
	if (part.now_ns < COST_WATCH_NS)
		return false;
	if (is_much(&part))
		return true;
	*watch = (struct cost_watch){ *now, .is_without_cpu = true };
	return false;
}

bool cost_watch_judge(struct cost_watch *watch, const struct cost_look *now, struct cost_look *ret_part)
{
	const struct cost_look part = part_until(&watch->since, now);
	bool is_known = !watch->is_without_cpu;

	*watch = (struct cost_watch){ *now };
	if (!is_known || !is_much(&part))
		return false;
	*ret_part = part;
	return true;
}

uint64_t cost_watch_wait_ns(const struct cost_watch *watch, uint64_t started_ns, uint64_t now_ns)
{
	if (watch->since.now_ns && watch->since.now_ns != started_ns)
		return UINT64_MAX;
	return more_than_before(started_ns + COST_WATCH_NS, now_ns) ?: 1;
}

/* The cost of a trap is known to some percent only. Where nearly all is cost, the rest is no measure of the program. */
#define TIMES_MOST 10.0

void cost_watch_format(struct reason *ret, const struct cost_look *part)
{
	uint64_t own_ns = more_than_before(part->sum.cpu_ns, part->sum.cost_ns);
	uint64_t cost_ns = part->sum.cost_ns < part->sum.cpu_ns ? part->sum.cost_ns : part->sum.cpu_ns;
	double times = own_ns ? (double)part->sum.cpu_ns / own_ns : TIMES_MOST;
	char cost[UNIT_TEXT_MAX], cpu[UNIT_TEXT_MAX], slower[64];

	if (times < TIMES_MOST)
		snprintf(slower, sizeof(slower), "about %.1f times slower", times);
	else
		snprintf(slower, sizeof(slower), "%.0f times slower or more", TIMES_MOST);
	reason_set(ret, 0, "%s (traps took about %s of %s of its CPU time)", slower, format_seconds(cost, cost_ns),
		   format_seconds(cpu, part->sum.cpu_ns));
}
