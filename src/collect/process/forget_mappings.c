// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Forgets mappings that are no longer there. */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "collect/process/mapping_history.h"
#include "collect/process/mappings.h"

/* Ranges of forgotten code become one if at most a gap of that size is between them, and nothing else. */
static void push_kept(struct mappings *mappings, const struct mapping *mapping, uint64_t gap)
{
	struct mapping *last = mappings->mapping_nr ? &mappings->mapping[mappings->mapping_nr - 1] : NULL;

	if (last && last->object == OBJECT_GONE && mapping->object == OBJECT_GONE && mapping->start - last->end <= gap) {
		last->end = mapping->end;
		if (last->since_ns > mapping->since_ns)
			last->since_ns = mapping->since_ns;
	} else {
		mappings->mapping[mappings->mapping_nr++] = *mapping;
	}
}

void mappings_forget_unmapped(struct mappings *mappings, uint64_t reading)
{
	uint64_t seen = reading < mappings->reading ? reading : mappings->reading;
	size_t nr = mappings->mapping_nr;

	mappings->mapping_nr = 0;
	for (size_t i = 0; i < nr; i++) {
		struct mapping mapping = mappings->mapping[i];

		if (mapping.seen < seen)
			mapping.object = OBJECT_GONE;
		push_kept(mappings, &mapping, 0);
	}
}

/*
 * Forgets the mappings last seen before `seen`, and of those last seen at `seen` the first so_many. Other code may come
 * there: one range stands for all that lay between two others.
 */
static void forget_mappings_before(struct mappings *mappings, uint64_t seen, size_t so_many)
{
	size_t nr = mappings->mapping_nr;

	mappings->mapping_nr = 0;
	for (size_t i = 0; i < nr; i++) {
		struct mapping mapping = mappings->mapping[i];
		bool is_last = mapping.seen == seen && so_many;

		so_many -= is_last;
		if (mapping.seen < seen || is_last) {
			mappings->forgotten_nr += mapping.object < OBJECT_GONE;
			mapping.object = OBJECT_GONE;
		}
		push_kept(mappings, &mapping, UINT64_MAX);
	}
}

void mappings_end_pass(struct mappings *mappings)
{
	mappings_forget_unmapped(mappings, mappings->pass_reading);
	mappings->pass_reading = mappings->reading;
	history_end_pass(mappings);
}

int mappings_forget_excess(struct mappings *mappings)
{
	size_t nr = 0, excess, older = 0;
	uint64_t *seen, last;

	for (size_t i = 0; i < mappings->mapping_nr; i++)
		nr += !mapping_is_there(mappings, &mappings->mapping[i]);
	if (nr <= MAPPINGS_UNMAPPED_MAX)
		return 0;
	seen = malloc(nr * sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	nr = 0;
	for (size_t i = 0; i < mappings->mapping_nr; i++)
		if (!mapping_is_there(mappings, &mappings->mapping[i]))
			seen[nr++] = mappings->mapping[i].seen;
	qsort(seen, nr, sizeof(*seen), array_by_number);
	excess = nr - MAPPINGS_UNMAPPED_MAX;
	last = seen[excess - 1];
	while (older < excess && seen[older] < last)
		older++;
	forget_mappings_before(mappings, last, excess - older);
	free(seen);
	return 0;
}
