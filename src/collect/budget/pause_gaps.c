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
	const struct gap gap = { pausing->open_ns, now_ns, pausing->length_ns };

	pausing->gap[pausing->gap_nr++] = gap; /* pausing_make_room() reserved it */
	pausing->nr++;
	pausing->length_ns += gap.end_ns - gap.start_ns;
	pausing->open_ns = 0;
}

int pausing_add_past(struct pausing *pausing, uint64_t start_ns, uint64_t end_ns)
{
	struct gap *last = pausing->gap_nr ? &pausing->gap[pausing->gap_nr - 1] : NULL;
	int err;

	if (pausing->open_ns)
		return 0;
	if (last && last->end_ns >= start_ns) {
		pausing->length_ns += end_ns - last->end_ns;
		last->end_ns = end_ns;
		return 0;
	}
	err = pausing_make_room(pausing);
	if (err)
		return err;
	pausing->open_ns = start_ns;
	pausing_close_gap(pausing, end_ns);
	return 0;
}

/* How many gaps begin before a time. */
static size_t gaps_before(const struct pausing *pausing, uint64_t time_ns)
{
	size_t low = 0, high = pausing->gap_nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (pausing->gap[mid].start_ns < time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The length of the first `nr` gaps and of those before gap[], up to a time. */
static uint64_t length_until(const struct pausing *pausing, size_t nr, uint64_t time_ns)
{
	const struct gap *last = nr ? &pausing->gap[nr - 1] : NULL;

	if (!last)
		return 0;
	return last->before_ns + (last->end_ns < time_ns ? last->end_ns : time_ns) - last->start_ns;
}

/*
 * A snapshot may be described after the next pause began, but its data was read before: later gaps do not
 * count.
 */
struct gaps_sum pausing_sum(const struct pausing *pausing, uint64_t start_ns, uint64_t now_ns)
{
	size_t until_start = gaps_before(pausing, start_ns), until_now = gaps_before(pausing, now_ns);
	struct gaps_sum sum = { .nr = until_now - until_start };

	if (start_ns >= now_ns)
		return (struct gaps_sum){};
	sum.length_ns = length_until(pausing, until_now, now_ns) - length_until(pausing, until_start, start_ns);
	if (!until_start)
		sum.nr += pausing->nr - pausing->gap_nr;
	else
		sum.nr += pausing->gap[until_start - 1].end_ns > start_ns;
	if (pausing->open_ns && pausing->open_ns < now_ns) {
		sum.nr++;
		sum.length_ns += now_ns - (pausing->open_ns > start_ns ? pausing->open_ns : start_ns);
	}
	return sum;
}
