// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/pause_gaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void pausing_release(struct pausing *pausing)
{
	free(pausing->gap);
	*pausing = (struct pausing){};
}

/*
 * Drops the older half when GAPS_MAX is reached: readers need the last gap and the sums, which are kept apart.
 */
int pausing_make_room(struct pausing *pausing)
{
	if (pausing->gap_nr == GAPS_MAX) {
		pausing->gap_nr /= 2;
		memmove(pausing->gap, pausing->gap + GAPS_MAX - pausing->gap_nr,
			pausing->gap_nr * sizeof(*pausing->gap));
	}
	return array_reserve(&pausing->gap, &pausing->gap_alloc, pausing->gap_nr + 1);
}

void pausing_close_gap(struct pausing *pausing, uint64_t now_ns)
{
	const struct gap gap = { pausing->open_ns, now_ns };

	pausing->gap[pausing->gap_nr++] = gap; /* pausing_make_room() reserved it */
	pausing->nr++;
	pausing->length_ns += gap.end_ns - gap.start_ns;
	pausing->open_ns = 0;
}

static uint64_t later_time(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * A snapshot may be described after the next pause began, but its data was read before: later gaps do not
 * count.
 */
struct gaps_sum pausing_sum(const struct pausing *pausing, uint64_t now_ns)
{
	struct gaps_sum sum = { pausing->nr, pausing->length_ns };

	for (size_t i = pausing->gap_nr; i-- > 0 && pausing->gap[i].end_ns > now_ns;) {
		const struct gap *gap = &pausing->gap[i];

		sum.nr -= gap->start_ns >= now_ns;
		sum.length_ns -= gap->end_ns - later_time(gap->start_ns, now_ns);
	}
	if (!pausing->open_ns || pausing->open_ns >= now_ns)
		return sum;
	return (struct gaps_sum){ sum.nr + 1, sum.length_ns + now_ns - pausing->open_ns };
}
