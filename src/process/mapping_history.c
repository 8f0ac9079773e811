// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/mapping_history.h"

#include <string.h>

#include "base/array.h"

static bool covers(const struct mapping *mapping, uint64_t address)
{
	return address - mapping->start < mapping->end - mapping->start;
}

/* Replaced mappings are in the order of their ends. */
static void forget_oldest(struct mappings *mappings, size_t nr)
{
	memmove(mappings->past, mappings->past + nr, (mappings->past_nr - nr) * sizeof(*mappings->past));
	mappings->past_nr -= nr;
	mappings->past_old_nr -= nr < mappings->past_old_nr ? nr : mappings->past_old_nr;
}

static void forget_half(struct mappings *mappings)
{
	size_t nr = mappings->past_nr / 2;

	mappings->past_lost_ns = mappings->past[nr - 1].until_ns;
	mappings->forgotten_nr += nr - (mappings->past_old_nr < nr ? mappings->past_old_nr : nr);
	forget_oldest(mappings, nr);
}

int history_add(struct mappings *mappings, const struct mapping *old, const struct mapping *by)
{
	struct mapping past = *old;

	if (!is_the_same_code(old, by))
		mappings->replaced_nr++;
	if (old->since_ns < old->surely_ns && by->since_ns <= old->surely_ns)
		return 0; /* a reading showed it before this earlier event: its own event comes later */
	if (mappings->changed_ns < by->surely_ns)
		mappings->changed_ns = by->surely_ns;
	past.until_ns = by->surely_ns;
	if (mappings->past_nr == MAPPINGS_PAST_MAX)
		forget_half(mappings);
	if (!mappings->past_nr || mappings->past_start > old->start)
		mappings->past_start = old->start;
	if (!mappings->past_nr || mappings->past_end < old->end)
		mappings->past_end = old->end;
	return array_push(mappings, past, past);
}

bool history_has(const struct mappings *mappings, uint64_t start, uint64_t end)
{
	if (mappings->past_lost_ns)
		return true;
	return array_any(mappings->past_nr, i, mappings->past[i].start < end && mappings->past[i].end > start);
}

void history_end_pass(struct mappings *mappings)
{
	if (mappings->past_old_nr)
		forget_oldest(mappings, mappings->past_old_nr);
	mappings->past_old_nr = mappings->past_nr;
	if (mappings->past_lost_ns == mappings->past_lost_old_ns)
		mappings->past_lost_ns = 0;
	mappings->past_lost_old_ns = mappings->past_lost_ns;
}

/* Whether the address has meant other code than it does now, or may have. */
static bool has_changed_at(const struct mappings *mappings, const struct mapping *now, uint64_t address)
{
	const struct mapping *first = now;
	uint64_t since_ns = now ? now->since_ns : UINT64_MAX;
	bool has_past = address >= mappings->past_start && address < mappings->past_end;

	for (size_t i = 0; has_past && i < mappings->past_nr; i++) {
		const struct mapping *past = &mappings->past[i];

		if (!covers(past, address))
			continue;
		if (first && !is_the_same_code(first, past))
			return true;
		first = past;
		if (since_ns > past->since_ns)
			since_ns = past->since_ns;
	}
	return since_ns && since_ns <= mappings->past_lost_ns;
}

const struct mapping *history_find(const struct mappings *mappings, uint64_t address, uint64_t time_ns,
				   bool *ret_is_unsure)
{
	const struct mapping *now = mappings_find(mappings, address), *then = NULL;

	*ret_is_unsure = false;
	if (!has_changed_at(mappings, now, address))
		return now;
	if (now && now->since_ns <= time_ns)
		then = now;
	for (size_t i = 0; i < mappings->past_nr; i++) {
		const struct mapping *past = &mappings->past[i];

		if (covers(past, address) && past->since_ns <= time_ns && (!then || past->since_ns > then->since_ns))
			then = past;
	}
	*ret_is_unsure = time_ns == HISTORY_ANY || (time_ns < mappings->past_lost_ns && then != now) ||
			 (then && (time_ns < then->surely_ns || then->object == OBJECT_GONE));
	return *ret_is_unsure ? NULL : then;
}

static int add_times(const struct mapping *mapping, uint64_t after_ns, struct history_times *times)
{
	int err = mapping->since_ns > after_ns ? array_push(times, time, mapping->since_ns) : 0;

	return err ?: mapping->surely_ns > mapping->since_ns && mapping->surely_ns > after_ns ?
			      array_push(times, time, mapping->surely_ns) : 0;
}

int history_times(const struct mappings *mappings, uint64_t address, uint64_t after_ns, struct history_times *times)
{
	const struct mapping *now = mappings_find(mappings, address);
	int err = 0;

	if (!has_changed_at(mappings, now, address))
		return 0;
	if (mappings->past_lost_ns > after_ns)
		err = array_push(times, time, mappings->past_lost_ns);
	if (!err && now)
		err = add_times(now, after_ns, times);
	for (size_t i = 0; i < mappings->past_nr && !err; i++)
		if (covers(&mappings->past[i], address))
			err = add_times(&mappings->past[i], after_ns, times);
	return err;
}
