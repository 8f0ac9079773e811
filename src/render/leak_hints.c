// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hints how to get what a snapshot of a runtime's process does not have (engine/leak_runtime.h). */
#include "render/leak_answer.h"

#include <errno.h>

#include "render/clean.h"
#include "render/json_parts.h"

#define HINT_SMALL_OBJECTS LEAK_RUNTIME_NR
#define HINT_LARGE_OBJECTS (LEAK_RUNTIME_NR + 1)
#define HINT_HEAP (LEAK_RUNTIME_NR + 2)
#define HINT_NR (LEAK_RUNTIME_NR + 3)

static const char *const leak_hint[HINT_NR] = {
	[LEAK_RUNTIME_PYTHON] = "Python code calls what leaks: '--domain python' names its lines; where that is refused, run "
				"it with 'python3 -X tracemalloc': tracemalloc-to-json reads its snapshots",
	[LEAK_RUNTIME_JAVASCRIPT] = "JavaScript calls what leaks: for its lines, run it with 'node --heap-prof'",
	[LEAK_RUNTIME_JAVA] = "Java code calls what leaks: for its lines, use a profiler of the Java virtual machine",
	[HINT_SMALL_OBJECTS] = "Python takes its small objects from arenas, and most of the growth is not traced: "
			       "'--domain python' traces each object; where that is refused, '--domain malloc,mmap' shows what "
			       "takes new arenas, and with PYTHONMALLOC=malloc in its environment each object is traced",
	[HINT_LARGE_OBJECTS] = "most of the growth is not in small objects of Python: '--sample pools,large' traces its larger "
			       "ones, too, '--domain malloc' what its libraries allocate",
	[HINT_HEAP] = "Python's objects are traced, and most of the growth is no object: '--domain malloc' traces what C code takes "
		      "from the heap; 'census' shows how full Python's arenas are",
};

unsigned int leak_answer_hints(const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	size_t shown = leaks_shown(answer);
	unsigned int runtimes = 0;

	for (size_t i = 0; i < shown; i++)
		for (size_t k = 0; k < leaks->bundle[i].nr; k++) {
			const struct leak_line *line = &leaks->line[leaks->bundle[i].first + k];

			if (line->verdict.kind <= LEAK_GROWS)
				runtimes |= leak_line_runtimes(leaks, line);
		}
	return runtimes | (unsigned int)leaks_miss_small_objects(leaks, runtimes) << HINT_SMALL_OBJECTS |
	       (unsigned int)leaks_miss_large_objects(leaks) << HINT_LARGE_OBJECTS |
	       (unsigned int)leaks_miss_heap(leaks) << HINT_HEAP;
}

int leak_put_hints(FILE *out, unsigned int hints)
{
	int err = 0;

	for (int i = 0; i < HINT_NR && !err; i++)
		if (hints & 1u << i)
			err = put_line(out, "hint: %s", leak_hint[i]);
	return err;
}

int leak_set_hints(json_t *head, unsigned int hints)
{
	json_t *array = hints ? json_array() : NULL;
	int err = 0;

	if (!hints)
		return 0;
	for (int i = 0; i < HINT_NR; i++)
		if (hints & 1u << i && json_array_append_new(array, json_string(leak_hint[i])))
			err = -ENOMEM;
	return json_set(head, "hints", json_unless(err, array));
}
