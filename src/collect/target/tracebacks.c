// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/target/tracebacks.h"

#include <stdlib.h>

static bool same_known_id(uint32_t index, const void *key, const void *table)
{
	const struct tracebacks *tracebacks = table;

	return tracebacks->traceback[index].id == *(const uint64_t *)key;
}

struct known_traceback *tracebacks_find(const struct tracebacks *tracebacks, uint64_t id)
{
	uint32_t index = idmap_find(&tracebacks->ids, hash_number(id), same_known_id, &id, tracebacks);

	return index == IDMAP_NONE ? NULL : &tracebacks->traceback[index];
}

struct known_traceback *tracebacks_find_born(const struct tracebacks *tracebacks, uint64_t id, uint64_t birth_ns)
{
	struct known_traceback *known = tracebacks_find(tracebacks, id);

	while (known && birth_ns >= known->until_ns)
		known = tracebacks_find(tracebacks, known->next_id);
	return known;
}

void tracebacks_forget(struct tracebacks *tracebacks)
{
	tracebacks->place_nr = 0;
	tracebacks->traceback_nr = 0;
	tracebacks->ambiguous_nr = 0;
	tracebacks->others = (struct churn){};
	tracebacks->summed_nr = 0;
	idmap_release(&tracebacks->ids);
}

void tracebacks_release(struct tracebacks *tracebacks)
{
	idmap_release(&tracebacks->ids);
	free(tracebacks->place);
	free(tracebacks->traceback);
}
