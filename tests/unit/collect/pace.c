// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How much of the recorder's time one process can take by mapping code. */
#include <criterion/criterion.h>

#include "collect/process/pace.h"

#define SECOND 1000000000ULL

static unsigned int taken(struct pace *pace, uint64_t look, uint64_t cost_ns, unsigned int offered)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < offered; i++) {
		if (pace_takes_event(pace, look, cost_ns))
			nr++;
		else
			pace_passes_over(pace, look);
	}
	return nr;
}

Test(pace, limits_the_events_of_each_round)
{
	unsigned int most = (PACE_LOOK_NS + PACE_EVENT_NS - 1) / PACE_EVENT_NS;
	struct pace pace = {};

	cr_expect_eq(taken(&pace, 0, PACE_EVENT_NS, 100000), most);
	cr_expect_eq(taken(&pace, 0, PACE_EVENT_NS, 1), 0);
	cr_expect_eq(taken(&pace, 1, PACE_EVENT_NS, 100000), most);
}

/* An event that costs more than a whole look is taken all the same, or it would wait forever. */
Test(pace, accepts_one_event_whatever_it_costs)
{
	struct pace pace = {};

	cr_expect_eq(taken(&pace, 1, 10 * PACE_LOOK_NS, 5), 1);
	cr_expect_eq(taken(&pace, 2, 10 * PACE_LOOK_NS, 5), 1);
}

/* A later mapping may lie in the place of the skipped one, so taking the later one would change the order. */
Test(pace, accepts_no_event_after_a_skipped_one)
{
	struct pace pace = {};

	cr_expect(pace_passes_over(&pace, 3));
	cr_expect_not(pace_passes_over(&pace, 3));
	cr_expect_eq(taken(&pace, 3, 1, 5), 0);
	cr_expect_eq(taken(&pace, 4, 1, 5), 5);
	cr_expect(pace_passes_over(&pace, 4));
}

Test(pace, reads_small_maps_at_any_time)
{
	struct pace pace = {};

	cr_expect(pace_reads(&pace, SECOND, false));
	pace_has_read(&pace, SECOND, PACE_READING_SMALL_NS / PACE_LINE_NS);
	cr_expect(pace_reads(&pace, SECOND, false), "the next library may come at once");
}

Test(pace, limits_the_time_for_reading_large_maps)
{
	uint64_t now = SECOND, reading_ns = 65530ULL * PACE_LINE_NS;
	struct pace pace = {};

	pace_has_read(&pace, now, 65530);
	cr_expect_not(pace_reads(&pace, now + 1, true));
	cr_expect_not(pace_reads(&pace, now + PACE_READING_LONGEST_NS, false));
	cr_expect(pace_reads(&pace, now + PACE_READING_LONGEST_NS, true), "for a pass");
	cr_expect_not(pace_reads(&pace, now + PACE_READING_SHARE * reading_ns - 1, false));
	cr_expect(pace_reads(&pace, now + PACE_READING_SHARE * reading_ns, false));
}
