// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/recording_clock.h"

#include <errno.h>
#include <stdlib.h>

#include "base/reason.h"

static __int128 elapsed_since_first(const struct recording_clock *clock, int64_t clock_ns)
{
	return (__int128)clock_ns - clock->first_ns;
}

static void count_recorded_snapshot(struct recording_clock *clock, const struct fleet_snapshot *snapshot)
{
	if (!clock->snapshot_nr++)
		clock->first_ns = snapshot->clock_ns;
	clock->last_ns = snapshot->clock_ns;
	clock->sum_ns += elapsed_since_first(clock, snapshot->clock_ns);
	clock->has_gap_blocks |= snapshot->gap_blocks.count > 0;
}

static void add_square(struct recording_clock *clock, int64_t clock_ns)
{
	long double distance = (long double)recording_clock_lever(clock, clock_ns) / clock->snapshot_nr;

	clock->square += distance * distance;
}

struct recording_clock *recording_clocks(const struct fleet_facts *facts, const struct cohort *cohort)
{
	struct recording_clock *clock = calloc(facts->recording_nr ?: 1, sizeof(*clock));

	if (!clock)
		return NULL;
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		count_recorded_snapshot(&clock[cohort->snapshot[i]->recording], cohort->snapshot[i]);
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		add_square(&clock[cohort->snapshot[i]->recording], cohort->snapshot[i]->clock_ns);
	return clock;
}

__int128 recording_clock_lever(const struct recording_clock *clock, int64_t clock_ns)
{
	return elapsed_since_first(clock, clock_ns) * clock->snapshot_nr - clock->sum_ns;
}

int recording_moment_add(__int128 *moment, __int128 lever, int64_t bytes, struct reason *why)
{
	__int128 more;

	if (__builtin_mul_overflow(lever, (__int128)bytes, &more) || __builtin_add_overflow(*moment, more, moment))
		return reason_set(why, -ERANGE, "sizes and times are too large to tell a trend");
	return 0;
}
