// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Code that a runtime interprets or compiles has no names in a snapshot. Hints say how to get them. */
#include "render/leak_answer.h"

#include <string.h>

#include "base/array.h"
#include "engine/pattern.h"
#include "snapshot.h"

#define PATTERNS_MAX 3

/* A frame belongs to a runtime if its file or its function has such a name. */
static const struct runtime {
	const char *object[PATTERNS_MAX], *function[PATTERNS_MAX];
	const char *hint;
} runtimes[] = {
	{ .object = { "python[23]*", "libpython[23]*" },
	  .hint = "Python code calls what leaks: for its lines, run it with 'python3 -X tracemalloc'; tracemalloc-to-json "
		  "reads its snapshots" },
	{ .object = { "node", "nodejs", "libnode.so*" },
	  .hint = "JavaScript calls what leaks: for its lines, run it with 'node --heap-prof'" },
	{ .object = { "libjvm.so" }, .function = { "Java_*" },
	  .hint = "Java code calls what leaks: for its lines, use a profiler of the Java virtual machine" },
};

_Static_assert(ARRAY_SIZE(runtimes) == LEAK_HINTS_MAX, "a hint for each runtime");

static bool has_runtime_name(const char *const pattern[PATTERNS_MAX], const char *name)
{
	for (int i = 0; i < PATTERNS_MAX && pattern[i]; i++)
		if (pattern_matches(pattern[i], name))
			return true;
	return false;
}

static const char *object_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_frame_of(const struct runtime *runtime, const struct snapshot *snapshot, uint32_t frame)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_frame *row = &tables->frame[frame];

	return has_runtime_name(runtime->object, object_file_name(snapshot__string(snapshot, tables->object[row->object].path))) ||
	       has_runtime_name(runtime->function, snapshot__string(snapshot, row->function));
}

/* Whether the runtime is among the callers of a line that is shown because it leaks, or may. */
static bool is_runtime_line(const struct runtime *runtime, const struct leaks *leaks, const struct leak_line *line)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);

	for (size_t i = 0; i < line->caller_nr; i++) {
		const struct snap_traceback *row = &tables->traceback[leaks->caller[line->first + i].traceback];

		for (uint32_t k = 0; k < row->nframe; k++)
			if (is_frame_of(runtime, leaks->last, tables->traceback_frame[row->first + k]))
				return true;
	}
	return false;
}

static bool is_leak_of(const struct runtime *runtime, const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	size_t shown = leaks_shown(answer);

	for (size_t i = 0; i < shown; i++)
		for (size_t k = 0; k < leaks->bundle[i].nr; k++) {
			const struct leak_line *line = &leaks->line[leaks->bundle[i].first + k];

			if (line->verdict.kind <= LEAK_GROWS && is_runtime_line(runtime, leaks, line))
				return true;
		}
	return false;
}

size_t leak_hints(const struct leak_answer *answer, const char *ret_hint[LEAK_HINTS_MAX])
{
	size_t nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++)
		if (is_leak_of(&runtimes[i], answer))
			ret_hint[nr++] = runtimes[i].hint;
	return nr;
}
