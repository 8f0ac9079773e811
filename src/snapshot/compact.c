// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The rows of a compact file: without addresses and threads, and with births rounded to the second.
 * Rows that are then equal become one row with a count. A reader expands them again (expand.c).
 */
#include "snapshot/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/idmap.h"


/* The columns that a compact file may have. */
static const uint32_t columns[] = {
	SNAP_TRACE_SIZE, SNAP_TRACE_TRACEBACK, SNAP_TRACE_DOMAIN, SNAP_TRACE_BIRTH_SECOND,
};

/* Replaces the snapshot's rows by rows that the image owns. */
static void own(struct snap_image *image, uint32_t type, void *row, uint64_t nr)
{
	free(image->own[type]);
	image->own[type] = row;
	image->rows[type] = (struct snap_rows){ row, nr };
}

/* ---- births --------------------------------------------------------------------------------- */

static uint64_t image_last_gap_ns(const struct snap_image *image)
{
	const struct snap_gap *gap = image->rows[SNAP_GAPS].row;
	uint64_t nr = gap ? image->rows[SNAP_GAPS].nr : 0;

	return nr ? gap[nr - 1].start_ns : 0;
}

/*
 * Rounds a birth down to its second. It rounds up if the second would lie before the last gap,
 * which the block has not lived through, or would be 0, which means unknown.
 */
static uint32_t second_of(uint64_t birth_ns, uint64_t gap_ns)
{
	uint64_t second = birth_ns / SECOND_NS;

	if (birth_ns && (!second || (birth_ns >= gap_ns && second * SECOND_NS < gap_ns)))
		second++;
	return second < UINT32_MAX ? second : UINT32_MAX;
}

static int round_births(struct snap_image *image)
{
	const uint64_t *birth_ns = image->rows[SNAP_TRACE_BIRTH].row;
	uint64_t nr = image->rows[SNAP_TRACE_BIRTH].nr, gap_ns = image_last_gap_ns(image);
	uint32_t *second;

	if (!birth_ns)
		return 0;
	second = malloc(nr * sizeof(*second) ?: 1);
	if (!second)
		return -ENOMEM;
	for (uint64_t i = 0; i < nr; i++)
		second[i] = second_of(birth_ns[i], gap_ns);
	own(image, SNAP_TRACE_BIRTH_SECOND, second, nr);
	image->rows[SNAP_TRACE_BIRTH] = (struct snap_rows){};
	return 0;
}

/* ---- equal rows ----------------------------------------------------------------------------- */

struct merge {
	const struct snap_image *image;
	uint32_t *first, *count; /* of each distinct row: its first position, and how often it occurs */
	uint32_t nr, most;
	struct idmap ids;
};

struct row {
	uint64_t size;
	uint32_t traceback, domain, second, padding;
};

static uint32_t u32_at(const struct snap_image *image, uint32_t type, uint64_t at)
{
	const uint32_t *column = image->rows[type].row;

	return column ? column[at] : 0;
}

static struct row image_row_at(const struct snap_image *image, uint64_t at)
{
	return (struct row){
		.size = ((const uint64_t *)image->rows[SNAP_TRACE_SIZE].row)[at],
		.traceback = u32_at(image, SNAP_TRACE_TRACEBACK, at),
		.domain = u32_at(image, SNAP_TRACE_DOMAIN, at),
		.second = u32_at(image, SNAP_TRACE_BIRTH_SECOND, at),
	};
}

static bool compact_same_row(uint32_t id, const void *key, const void *merge_)
{
	const struct merge *merge = merge_;
	const struct row row = image_row_at(merge->image, merge->first[id]);

	return !memcmp(&row, key, sizeof(row));
}

/* 0, -ENOMEM, or -E2BIG: there are too many distinct rows, so merging does not pay. */
static int merge_one(struct merge *merge, uint32_t at)
{
	const struct row row = image_row_at(merge->image, at);
	uint64_t hash = hash_bytes(&row, sizeof(row), 0);
	uint32_t id = idmap_find(&merge->ids, hash, compact_same_row, &row, merge);

	if (id != IDMAP_NONE) {
		merge->count[id]++;
		return 0;
	}
	if (merge->nr == merge->most)
		return -E2BIG;
	merge->first[merge->nr] = at;
	merge->count[merge->nr] = 1;
	return idmap_add(&merge->ids, hash, merge->nr++);
}

static int gather_rows(struct snap_image *image, const struct merge *merge, uint32_t type)
{
	size_t size = snap_shapes[type].row_size;
	const char *from = image->rows[type].row;
	char *to = from ? malloc(merge->nr * size) : NULL;

	if (!from)
		return 0;
	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < merge->nr; i++)
		memcpy(to + i * size, from + merge->first[i] * size, size);
	own(image, type, to, merge->nr);
	return 0;
}

static int merge_rows(struct snap_image *image, struct merge *merge, uint64_t nr)
{
	int err = merge->first && merge->count ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < nr && !err; i++)
		err = merge_one(merge, i);
	if (err == -E2BIG)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(columns) && !err; i++)
		err = gather_rows(image, merge, columns[i]);
	if (err)
		return err;
	own(image, SNAP_TRACE_COUNT, merge->count, merge->nr);
	merge->count = NULL;
	return 0;
}

/*
 * Samples are not merged: their sums must be added in the order of the traces, and there are few.
 * Neither are so many rows that a reader would refuse to expand them.
 */
static bool may_merge(const struct snap_image *image, uint64_t nr)
{
	return nr && !image->rows[SNAP_TRACE_WEIGHT].row &&
	       nr <= SNAP_ALWAYS_BYTES / SNAP_EXPANDED_ROW_BYTES;
}

static int merge_equal(struct snap_image *image)
{
	uint64_t nr = image->rows[SNAP_TRACE_SIZE].nr, row_bytes = 0;
	struct merge merge = { .image = image };
	int err;

	if (!may_merge(image, nr))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		row_bytes += image->rows[columns[i]].row ? snap_shapes[columns[i]].row_size : 0;
	merge.most = nr * row_bytes / (row_bytes + sizeof(uint32_t));
	merge.first = malloc((merge.most + 1) * sizeof(*merge.first));
	merge.count = malloc((merge.most + 1) * sizeof(*merge.count));
	err = merge_rows(image, &merge, nr);
	free(merge.first);
	free(merge.count);
	idmap_release(&merge.ids);
	return err;
}

int snap_image_compact(struct snap_image *image)
{
	image->rows[SNAP_TRACE_ADDRESS] = image->rows[SNAP_TRACE_THREAD] = (struct snap_rows){};
	return round_births(image) ?: merge_equal(image);
}
