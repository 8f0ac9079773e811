// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/late_functions.h"

#include <stdlib.h>

#include "base/array.h"
#include "collect/probe/probes.h"
#include "collect/process/mappings.h"

int late_functions_see(struct late_functions *late, uint32_t object, uint64_t since_ns)
{
	struct seen_object seen = { .object = object, .since_ns = since_ns };

	if (object >= OBJECT_GONE)
		return 0;
	for (size_t i = 0; i < late->seen_nr; i++)
		if (late->seen[i].object == object)
			return 0;
	return array_push(late, seen, seen);
}

int late_functions_see_all(struct late_functions *late, const struct mappings *mappings, uint64_t since_ns)
{
	int err = 0;

	for (size_t i = 0; i < mappings->mapping_nr && !err; i++)
		err = late_functions_see(late, mappings->mapping[i].object, since_ns);
	return err;
}

void late_functions_count(struct late_functions *late, const struct objects *objects, const struct probes *probes,
			  bool with_heap, bool has_ended)
{
	for (; late->judged_nr < late->seen_nr; late->judged_nr++) {
		const struct seen_object *seen = &late->seen[late->judged_nr];

		if (!has_ended && !probes_have_looked(probes, seen->object))
			return; /* the next look will handle it */
		if (probes_since_ns(probes, seen->object, with_heap) > seen->since_ns)
			late->nr += probes_count_functions(objects, seen->object, with_heap);
	}
}

void late_functions_forget(struct late_functions *late, const bool *goes)
{
	size_t kept = 0, judged_nr = 0;

	for (size_t i = 0; i < late->seen_nr; i++) {
		if (goes[late->seen[i].object])
			continue;
		judged_nr += i < late->judged_nr;
		late->seen[kept++] = late->seen[i];
	}
	late->seen_nr = kept;
	late->judged_nr = judged_nr;
}

void late_functions_begin_image(struct late_functions *late)
{
	late->seen_nr = late->judged_nr = late->nr = 0;
}

void late_functions_release(struct late_functions *late)
{
	free(late->seen);
}
