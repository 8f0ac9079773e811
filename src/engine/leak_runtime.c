// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_runtime.h"

#include <string.h>

#include "engine/estimate.h"
#include "engine/pattern.h"
#include "snapshot.h"

#define PATTERNS_MAX 3
#define DOMAIN_MMAP 1 /* named in a snapshot if mappings are recorded */
#define DOMAIN_PYTHON 5 /* the same, if Python's objects are */
#define ARENA_BYTES (256 << 10) /* of Python before 3.10; later ones are larger */

/* A frame belongs to a runtime if its file or its function has such a name. */
static const struct runtime_names {
	const char *object[PATTERNS_MAX], *function[PATTERNS_MAX];
} runtime_names[LEAK_RUNTIME_NR] = {
	[LEAK_RUNTIME_PYTHON] = { .object = { "python[23]*", "libpython[23]*" } },
	[LEAK_RUNTIME_JAVASCRIPT] = { .object = { "node", "nodejs", "libnode.so*" } },
	[LEAK_RUNTIME_JAVA] = { .object = { "libjvm.so" }, .function = { "Java_*" } },
};

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

static unsigned int frame_runtimes(const struct snapshot *snapshot, uint32_t frame)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_frame *row = &tables->frame[frame];
	const char *object = object_file_name(snapshot__string(snapshot, tables->object[row->object].path));
	const char *function = snapshot__string(snapshot, row->function);
	unsigned int runtimes = 0;

	for (int i = 0; i < LEAK_RUNTIME_NR; i++)
		if (has_runtime_name(runtime_names[i].object, object) ||
		    has_runtime_name(runtime_names[i].function, function))
			runtimes |= 1u << i;
	return runtimes;
}

bool leak_passes_made_code(const struct snapshot *snapshot, uint32_t traceback)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_traceback *row = &tables->traceback[traceback];

	for (uint32_t i = 0; i < row->nframe; i++) {
		const struct snap_frame *frame = &tables->frame[tables->traceback_frame[row->first + i]];

		if (!frame->object && frame->offset)
			return true;
	}
	return false;
}

static bool is_growth_untraced(const struct leaks *leaks)
{
	double rss = (double)leaks->rss_last - leaks->rss_first;

	return leaks->rss_first && rss >= ARENA_BYTES && 2 * leaks->growth_bytes < rss &&
	       !snapshot__domain_name(leaks->last, DOMAIN_MMAP);
}

bool leaks_miss_heap(const struct leaks *leaks)
{
	return is_growth_untraced(leaks) && snapshot__domain_name(leaks->last, DOMAIN_PYTHON) &&
	       !leaks_miss_large_objects(leaks);
}

bool leaks_miss_small_objects(const struct leaks *leaks, unsigned int runtimes)
{
	const char *exe = snapshot__metadata(leaks->last, "exe") ?: "";

	if (has_runtime_name(runtime_names[LEAK_RUNTIME_PYTHON].object, object_file_name(exe)))
		runtimes |= 1u << LEAK_RUNTIME_PYTHON;
	return runtimes & 1u << LEAK_RUNTIME_PYTHON && is_growth_untraced(leaks) &&
	       !snapshot__domain_name(leaks->last, DOMAIN_PYTHON);
}

bool leaks_miss_large_objects(const struct leaks *leaks)
{
	return is_growth_untraced(leaks) && snapshot_samples_pools(leaks->last) && snapshot__metadata(leaks->last, "max_size");
}

unsigned int leak_line_runtimes(const struct leaks *leaks, const struct leak_line *line)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);
	unsigned int runtimes = 0;

	for (size_t i = 0; i < line->caller_nr; i++) {
		const struct snap_traceback *row = &tables->traceback[leaks->caller[line->first + i].traceback];

		for (uint32_t k = 0; k < row->nframe; k++)
			runtimes |= frame_runtimes(leaks->last, tables->traceback_frame[row->first + k]);
	}
	return runtimes;
}
