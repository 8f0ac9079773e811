// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/pace.h"

static void begin_look(struct pace *pace, uint64_t look)
{
	if (pace->look == look)
		return;
	pace->look = look;
	pace->event_ns = 0;
	pace->is_over = false;
}

/* The event that reaches the limit is still allowed: a single event may cost more than a whole step has. */
bool pace_takes_event(struct pace *pace, uint64_t look, uint64_t cost_ns)
{
	begin_look(pace, look);
	if (pace->is_over || pace->event_ns >= PACE_LOOK_NS)
		return false;
	pace->event_ns += cost_ns;
	return true;
}

bool pace_passes_over(struct pace *pace, uint64_t look)
{
	bool was_over;

	begin_look(pace, look);
	was_over = pace->is_over;
	pace->is_over = true;
	return !was_over;
}

bool pace_reads(const struct pace *pace, uint64_t now_ns, bool must)
{
	return now_ns >= pace->next_read_ns ||
	       (must && now_ns >= pace->read_ns + PACE_READING_LONGEST_NS);
}

void pace_has_read(struct pace *pace, uint64_t now_ns, uint64_t line_nr)
{
	uint64_t cost_ns = line_nr * PACE_LINE_NS;

	pace->read_ns = now_ns;
	pace->next_read_ns = cost_ns <= PACE_READING_SMALL_NS ? 0 : now_ns + cost_ns * PACE_READING_SHARE;
}
