// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_runtime.h"

#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "engine/estimate.h"
#include "engine/pattern.h"
#include "snapshot.h"

#define PATTERNS_MAX 3
#define GROWTH_LEAST (1 << 20) /* less is the noise of allocators and of the kernel */

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

/* Code that a runtime has made and named: the row needs no hint to get the name. */
static bool is_named_code(const struct snap_frame *frame)
{
	return !frame->object && frame->offset && frame->function;
}

static unsigned int frame_runtimes(const struct snapshot *snapshot, uint32_t frame)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_frame *row = &tables->frame[frame];
	const char *object = path_name(snapshot__string(snapshot, tables->object[row->object].path));
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

bool has_kept_lines(const struct snapshot *snapshot)
{
	return snapshot__metadata(snapshot, "python_frames") && !snapshot_samples_pools(snapshot) &&
	       !snapshot__metadata(snapshot, "python_retag");
}

unsigned int leak_recording_hints(const struct snapshot *snapshot)
{
	if (leaks_are_of_pages(snapshot))
		return 1u << LEAK_HINT_PAGES;
	return has_kept_lines(snapshot) ? 1u << LEAK_HINT_KEPT_LINES :
	       snapshot_samples_pools(snapshot) ? 1u << LEAK_HINT_POOLS : 0;
}

/* The growth of RSS without files and shared memory: of anonymous memory. */
static double anonymous_growth(const struct leaks *leaks)
{
	return leaks->rss_bytes - leaks->files_bytes;
}

static bool mappings_explain(const struct leaks *leaks)
{
	return leaks->rss_growth.mapped_bytes <= 2 * anonymous_growth(leaks);
}

double leaks_traced_growth(const struct leaks *leaks)
{
	return leaks->rss_growth.block_bytes + (mappings_explain(leaks) ? leaks->rss_growth.mapped_bytes : 0);
}

bool leak_line_explains(const struct leaks *leaks, const struct leak_line *line)
{
	return leak_line_caller(leaks, line)->domain != DOMAIN_MAPPING || mappings_explain(leaks);
}

/* Go collects garbage once its heap has doubled (GOGC): so much more of its memory may be garbage, or free. */
static double slack_of_go(const struct leaks *leaks)
{
	return snapshot_is_of_go(leaks->last) ? snapshot__counter(leaks->last, "current_bytes") : 0;
}

/* If it is most of the growth, and a MiB or more; otherwise 0. */
static double unexplained_growth(const struct leaks *leaks)
{
	double growth = anonymous_growth(leaks) - slack_of_go(leaks), traced = leaks_traced_growth(leaks);

	return growth >= GROWTH_LEAST && 2 * traced < growth ? growth - (traced > 0 ? traced : 0) : 0;
}

/* An estimate whose interval contains the growth is no evidence of memory that is not traced. */
static bool samples_may_explain(const struct leaks *leaks)
{
	const struct live_growth *growth = &leaks->rss_growth;

	return growth->missed_bytes > 0 && leaks_traced_growth(leaks) + growth->missed_bytes >= anonymous_growth(leaks);
}

double leaks_untraced_growth(const struct leaks *leaks)
{
	return samples_may_explain(leaks) ? 0 : unexplained_growth(leaks);
}

double leaks_missed_growth(const struct leaks *leaks)
{
	return samples_may_explain(leaks) ? unexplained_growth(leaks) : 0;
}

bool leaks_are_of_pages(const struct snapshot *snapshot)
{
	return snapshot__metadata(snapshot, "pages_by");
}

bool has_heap_beside(const struct snapshot *snapshot)
{
	const char *domains = snapshot__metadata(snapshot, "domains");

	return domains && !strncmp(domains, "python,malloc", strlen("python,malloc"));
}

static bool runs_python(const struct leaks *leaks)
{
	const char *exe = snapshot__metadata(leaks->last, "exe") ?: "";
	unsigned int runtimes = 0;

	for (size_t i = 0; i < leaks->line_nr; i++)
		runtimes |= leak_line_runtimes(leaks, &leaks->line[i]);
	return runtimes & 1u << LEAK_RUNTIME_PYTHON ||
	       has_runtime_name(runtime_names[LEAK_RUNTIME_PYTHON].object, path_name(exe));
}

static enum leak_untraced untraced_kind(const struct leaks *leaks)
{
	if (snapshot_samples_pools(leaks->last) && snapshot__metadata(leaks->last, "max_size"))
		return LEAK_UNTRACED_LARGE_OBJECTS;
	if (snapshot__domain_name(leaks->last, DOMAIN_PYTHON) && !has_heap_beside(leaks->last))
		return LEAK_UNTRACED_PYTHONS_HEAP;
	if (snapshot__domain_name(leaks->last, DOMAIN_JAVA))
		return LEAK_UNTRACED_JAVA;
	if (runs_python(leaks) && !snapshot_samples_pools(leaks->last))
		return LEAK_UNTRACED_SMALL_OBJECTS;
	return snapshot__metadata(leaks->last, "unrecorded") ? LEAK_UNTRACED_NAMED : LEAK_UNTRACED_UNKNOWN;
}

struct untraced_growth leaks_find_untraced(const struct leaks *leaks)
{
	enum leak_untraced kind = untraced_kind(leaks);

	return (struct untraced_growth){
		.kind = kind,
		.name = kind == LEAK_UNTRACED_NAMED ? snapshot__metadata(leaks->last, "unrecorded") : NULL,
		.bytes = leaks_untraced_growth(leaks),
		.anonymous_bytes = anonymous_growth(leaks),
	};
}

bool leak_line_is_nameless(const struct leaks *leaks, const struct leak_line *line)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);
	const struct leak_caller *caller = leak_line_caller(leaks, line);
	const struct snap_traceback *row = &tables->traceback[caller->traceback];
	const struct snap_frame *frame;

	if (caller->skipped >= row->nframe)
		return false;
	frame = &tables->frame[tables->traceback_frame[row->first + caller->skipped]];
	return frame->object && !frame->function && !frame->lineno;
}

unsigned int leak_line_runtimes(const struct leaks *leaks, const struct leak_line *line)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);
	unsigned int runtimes = 0;

	for (size_t i = 0; i < line->caller_nr; i++) {
		const struct snap_traceback *row = &tables->traceback[leaks->caller[line->first + i].traceback];
		const uint32_t *frame = &tables->traceback_frame[row->first];
		bool is_named = array_any(row->nframe, k, is_named_code(&tables->frame[frame[k]]));

		for (uint32_t k = 0; k < row->nframe; k++)
			runtimes |= frame_runtimes(leaks->last, frame[k]) & ~(is_named ? 1u << LEAK_RUNTIME_JAVASCRIPT : 0);
	}
	return runtimes;
}
