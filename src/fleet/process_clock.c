// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/process_clock.h"

#include <stdlib.h>

static __int128 elapsed(const struct process_clock *clock, int64_t clock_ns)
{
	return (__int128)clock_ns - clock->first_ns;
}

static void count(struct process_clock *clock, int64_t clock_ns)
{
	if (!clock->snapshot_nr++)
		clock->first_ns = clock_ns;
	clock->sum_ns += elapsed(clock, clock_ns);
}

static void add_square(struct process_clock *clock, int64_t clock_ns)
{
	long double distance = (long double)process_clock_lever(clock, clock_ns) / clock->snapshot_nr;

	clock->square += distance * distance;
}

struct process_clock *process_clocks(const struct fleet_facts *facts, const struct cohort *cohort)
{
	struct process_clock *clock = calloc(facts->process_nr ?: 1, sizeof(*clock));

	if (!clock)
		return NULL;
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		count(&clock[cohort->snapshot[i]->process], cohort->snapshot[i]->clock_ns);
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		add_square(&clock[cohort->snapshot[i]->process], cohort->snapshot[i]->clock_ns);
	return clock;
}

__int128 process_clock_lever(const struct process_clock *clock, int64_t clock_ns)
{
	return elapsed(clock, clock_ns) * clock->snapshot_nr - clock->sum_ns;
}
