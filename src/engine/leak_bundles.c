// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/leak_lines.h"
#include "snapshot.h"

#define SIXTEENTHS 16
#define COMPARED_MOST 1000 /* lines of a kind, those of the highest rates: comparing all with all takes too long */

/* ---- order ---------------------------------------------------------------------------------- */

static int by_kind_and_rate(const void *left, const void *right)
{
	const struct leak_line *a = left, *b = right;

	return (int)a->verdict.kind - (int)b->verdict.kind ?:
	       (a->verdict.bytes_per_s < b->verdict.bytes_per_s) - (a->verdict.bytes_per_s > b->verdict.bytes_per_s) ?:
	       (a->verdict.bytes < b->verdict.bytes) - (a->verdict.bytes > b->verdict.bytes) ?:
	       (a->line > b->line) - (a->line < b->line);
}

static int bundle_order(const void *left, const void *right, void *leaks_)
{
	const struct leak_bundle *a = left, *b = right;
	const struct leaks *leaks = leaks_;
	const struct leak_line *line_a = &leaks->line[a->first], *line_b = &leaks->line[b->first];

	return leak_rank(&line_a->verdict) - leak_rank(&line_b->verdict) ?:
	       (a->bytes_per_s < b->bytes_per_s) - (a->bytes_per_s > b->bytes_per_s) ?:
	       (a->first > b->first) - (a->first < b->first);
}

/* ---- which lines leak together -------------------------------------------------------------- */

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Whether survivors of both were born at the same times, one for one within 5 %. */
static bool leak_together(const struct leak_line *line, const struct leak_line *with)
{
	uint64_t sum = 0, apart = 0;

	for (int i = 0; i < SIXTEENTHS; i++) {
		sum += line->sixteenth[i];
		apart += distance(line->sixteenth[i], with->sixteenth[i]);
	}
	return sum >= LEAK_SURVIVORS_SURE && 20 * apart <= sum;
}

/* Moves the line behind the bundle's others; the order of the lines between stays. */
static void move_line(struct leak_line *line, size_t from, size_t to)
{
	struct leak_line moved = line[from];

	memmove(&line[to + 1], &line[to], (from - to) * sizeof(*line));
	line[to] = moved;
}

/* Lines from `end` on are not compared. */
static void gather_bundle(struct leaks *leaks, struct leak_bundle *bundle, size_t end)
{
	for (size_t i = bundle->first + 1; i < end; i++)
		if (leak_together(&leaks->line[i], &leaks->line[bundle->first]))
			move_line(leaks->line, i, bundle->first + bundle->nr++);
}

/* Where the lines end that may be in one bundle with lines of a kind that begins at `first`. */
static size_t find_compared_end(const struct leaks *leaks, size_t first)
{
	enum leak_kind kind = leaks->line[first].verdict.kind;
	size_t end = first;

	while (kind <= LEAK_LIKELY && end < leaks->line_nr && end - first < COMPARED_MOST &&
	       leaks->line[end].verdict.kind == kind)
		end++;
	return end;
}

/* ---- their common caller -------------------------------------------------------------------- */

static const uint32_t *frames_of(const struct snapshot_tables *tables, uint32_t traceback, uint32_t *ret_nr)
{
	*ret_nr = tables->traceback[traceback].nframe;
	return &tables->traceback_frame[tables->traceback[traceback].first];
}

static bool is_same_function(const struct snapshot_tables *tables, uint32_t a, uint32_t b)
{
	const struct snap_frame *row_a = &tables->frame[a], *row_b = &tables->frame[b];

	return a == b || (row_a->function && row_a->function == row_b->function &&
			  row_a->filename == row_b->filename && row_a->object == row_b->object);
}

/* How many of the oldest frames are the same: calls from the same places, and at last the same function. */
static uint32_t count_common(const struct snapshot_tables *tables, uint32_t first, uint32_t second)
{
	uint32_t nr_a, nr_b, same = 0;
	const uint32_t *a = frames_of(tables, first, &nr_a), *b = frames_of(tables, second, &nr_b);

	while (same < nr_a && same < nr_b && a[nr_a - 1 - same] == b[nr_b - 1 - same])
		same++;
	if (same < nr_a && same < nr_b && is_same_function(tables, a[nr_a - 1 - same], b[nr_b - 1 - same]))
		same++;
	return same;
}

static void find_caller(const struct leaks *leaks, struct leak_bundle *bundle)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);
	const struct leak_line *line = &leaks->line[bundle->first];
	uint32_t traceback = leak_line_caller(leaks, line)->traceback;
	uint32_t common = UINT32_MAX;

	for (size_t i = 1; i < bundle->nr; i++) {
		uint32_t nr = count_common(tables, traceback, leak_line_caller(leaks, &line[i])->traceback);

		common = nr < common ? nr : common;
	}
	bundle->caller = bundle->nr > 1 && common ? common - 1 : UINT32_MAX;
}

static void sum_bundle(const struct leaks *leaks, struct leak_bundle *bundle)
{
	bundle->since_ns = UINT64_MAX;
	for (size_t i = 0; i < bundle->nr; i++) {
		const struct leak_verdict *verdict = &leaks->line[bundle->first + i].verdict;

		bundle->bytes_per_s += verdict->bytes_per_s;
		bundle->least_bytes_per_s += verdict->least_bytes_per_s;
		bundle->since_ns = verdict->since_ns < bundle->since_ns ? verdict->since_ns : bundle->since_ns;
	}
}

int leak_bundles_make(struct leaks *leaks)
{
	size_t at = 0, end = 0;

	if (leaks->line_nr)
		qsort(leaks->line, leaks->line_nr, sizeof(*leaks->line), by_kind_and_rate);
	leaks->bundle = calloc(leaks->line_nr ?: 1, sizeof(*leaks->bundle));
	if (!leaks->bundle)
		return -ENOMEM;
	while (at < leaks->line_nr) {
		struct leak_bundle *bundle = &leaks->bundle[leaks->bundle_nr++];

		if (!at || leaks->line[at].verdict.kind != leaks->line[at - 1].verdict.kind)
			end = find_compared_end(leaks, at);
		*bundle = (struct leak_bundle){ .first = at, .nr = 1 };
		gather_bundle(leaks, bundle, end);
		find_caller(leaks, bundle);
		sum_bundle(leaks, bundle);
		at += bundle->nr;
	}
	qsort_r(leaks->bundle, leaks->bundle_nr, sizeof(*leaks->bundle), bundle_order, leaks);
	return 0;
}
