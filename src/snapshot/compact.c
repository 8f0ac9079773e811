// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/progress.h"
#include "snapshot/reader.h"

/*
 * The rows of a compact file: without addresses and threads, and with births rounded to the second.
 * Rows that are then equal become one row with a count. A reader expands them again.
 */

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
	struct progress progress = progress_begin("compacting", "blocks", nr);
	int err = merge->first && merge->count ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < nr && !err; i++) {
		progress_show_row(&progress, i);
		err = merge_one(merge, i);
	}
	progress_end(&progress);
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

/* Expands the rows of a compact file to one for each block; births become nanoseconds. */

/* All columns of a trace, except its count. */
static const uint32_t expanded_columns[] = {
	SNAP_TRACE_SIZE, SNAP_TRACE_TRACEBACK, SNAP_TRACE_DOMAIN, SNAP_TRACE_BIRTH,
	SNAP_TRACE_ADDRESS, SNAP_TRACE_THREAD, SNAP_TRACE_WEIGHT,
};

static void drop_rows(struct snapshot *s, uint32_t type)
{
	huge_pages_free(s->memory[type].bytes, s->memory[type].len);
	s->memory[type] = (struct snap_memory){};
	s->rows[type] = (struct snap_rows){};
}

static int check_same_nr(const struct snap_reading *r, const struct snapshot *s, uint32_t type)
{
	if (s->rows[type].nr == s->rows[SNAP_TRACE_SIZE].nr)
		return 0;
	return snap_damaged(r, type, "%" PRIu64 " rows for %" PRIu64 " sizes", s->rows[type].nr,
			    s->rows[SNAP_TRACE_SIZE].nr);
}

static int expand_births(const struct snap_reading *r, struct snapshot *s)
{
	const uint32_t *second = s->rows[SNAP_TRACE_BIRTH_SECOND].row;
	uint64_t nr = s->rows[SNAP_TRACE_BIRTH_SECOND].nr, *birth_ns;
	int err = check_same_nr(r, s, SNAP_TRACE_BIRTH_SECOND);

	if (!err && r->section[SNAP_TRACE_BIRTH])
		err = snap_damaged(r, SNAP_TRACE_BIRTH, "it is there beside %s",
				   snap_shapes[SNAP_TRACE_BIRTH_SECOND].name);
	if (err)
		return err;
	birth_ns = snap_own_rows(s, SNAP_TRACE_BIRTH, nr);
	if (!birth_ns)
		return snap_system_error(r, -ENOMEM);
	for (uint64_t i = 0; i < nr; i++)
		birth_ns[i] = second[i] * SECOND_NS;
	drop_rows(s, SNAP_TRACE_BIRTH_SECOND);
	return 0;
}

/* Adds up the counts: the number of traces, which must not exceed what the file may hold. */
static int add_counts(const struct snap_reading *r, const struct snapshot *s, uint64_t *ret)
{
	const uint32_t *count = s->rows[SNAP_TRACE_COUNT].row;
	uint64_t sum = 0, row_bytes = 0, bytes;
	int err = check_same_nr(r, s, SNAP_TRACE_COUNT);

	for (size_t i = 0; i < ARRAY_SIZE(expanded_columns) && !err; i++) {
		if (!s->rows[expanded_columns[i]].row)
			continue;
		err = check_same_nr(r, s, expanded_columns[i]);
		row_bytes += snap_shapes[expanded_columns[i]].row_size;
	}
	for (uint64_t i = 0; i < s->rows[SNAP_TRACE_COUNT].nr && !err; i++) {
		if (!count[i])
			err = snap_damaged(r, SNAP_TRACE_COUNT, "row %" PRIu64 ": no trace", i);
		sum += count[i];
	}
	if (!err && (__builtin_mul_overflow(sum, row_bytes, &bytes) ||
		     snap_expands_too_much(bytes, r->len)))
		err = snap_damaged(r, SNAP_TRACE_COUNT, "%" PRIu64 " traces are too many for a file "
				   "of %" PRIu64 " bytes", sum, r->len);
	*ret = sum;
	return err;
}

static void repeat_u32(uint32_t *to, const uint32_t *from, const struct snap_rows *counts)
{
	const uint32_t *count = counts->row;

	for (uint64_t i = 0; i < counts->nr; i++)
		for (uint32_t k = 0; k < count[i]; k++)
			*to++ = from[i];
}

static void repeat_u64(uint64_t *to, const uint64_t *from, const struct snap_rows *counts)
{
	const uint32_t *count = counts->row;

	for (uint64_t i = 0; i < counts->nr; i++)
		for (uint32_t k = 0; k < count[i]; k++)
			*to++ = from[i];
}

static int repeat(const struct snap_reading *r, struct snapshot *s, uint32_t type, uint64_t nr)
{
	struct snap_memory before = s->memory[type];
	const void *from = s->rows[type].row;
	void *to;

	if (!from)
		return 0;
	to = snap_own_rows(s, type, nr);
	if (!to)
		return snap_system_error(r, -ENOMEM);
	if (snap_shapes[type].row_size == sizeof(uint64_t))
		repeat_u64(to, from, &s->rows[SNAP_TRACE_COUNT]);
	else
		repeat_u32(to, from, &s->rows[SNAP_TRACE_COUNT]);
	huge_pages_free(before.bytes, before.len);
	return 0;
}

static int expand_counts(const struct snap_reading *r, struct snapshot *s)
{
	uint64_t nr;
	int err = add_counts(r, s, &nr);

	for (size_t i = 0; i < ARRAY_SIZE(expanded_columns) && !err; i++)
		err = repeat(r, s, expanded_columns[i], nr);
	if (!err)
		drop_rows(s, SNAP_TRACE_COUNT);
	return err;
}

/* A compact file lacks certain sections. A hostile file may have all of them. */
static bool is_compact(const struct snap_reading *r)
{
	return (r->section[SNAP_TRACE_BIRTH_SECOND] || r->section[SNAP_TRACE_COUNT]) &&
	       !r->section[SNAP_TRACE_BIRTH] && !r->section[SNAP_TRACE_ADDRESS] &&
	       !r->section[SNAP_TRACE_THREAD];
}

int snap_expand(const struct snap_reading *r, struct snapshot *s)
{
	int err = 0;

	s->is_compact = is_compact(r);
	if (r->section[SNAP_TRACE_BIRTH_SECOND])
		err = expand_births(r, s);
	if (!err && r->section[SNAP_TRACE_COUNT])
		err = expand_counts(r, s);
	return err;
}

#define LEVEL 1 /* for columns of numbers as small as level 3, and faster */

static size_t raw_len(const struct snap_image *image, uint32_t type)
{
	return image->rows[type].nr * snap_shapes[type].row_size;
}

static uint64_t image_len(const struct snap_image *image)
{
	uint64_t sum = 0;

	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		sum += raw_len(image, type);
	return sum;
}

static int pack(struct snap_image *image, ZSTD_CCtx *zstd, uint32_t type)
{
	size_t raw = raw_len(image, type), room = ZSTD_compressBound(raw), len;
	void *bytes = malloc(room), *fitted;

	if (!bytes)
		return -ENOMEM;
	len = ZSTD_compressCCtx(zstd, bytes, room, image->rows[type].row, raw, LEVEL);
	if (ZSTD_isError(len) || len >= raw) {
		free(bytes);
		return ZSTD_getErrorCode(len) == ZSTD_error_memory_allocation ? -ENOMEM : 0;
	}
	fitted = realloc(bytes, len);
	image->packed[type] = fitted ?: bytes;
	image->packed_len[type] = len;
	return 0;
}

static void unpack_image_section(struct snap_image *image, uint32_t type)
{
	free(image->packed[type]);
	image->packed[type] = NULL;
}

/* A reader refuses sections that expand too much (zeros, mostly), so they stay uncompressed. */
static void limit_expansion(struct snap_image *image)
{
	uint64_t rows = 0, file = 0;

	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++) {
		rows += raw_len(image, type);
		file += image->packed[type] ? image->packed_len[type] : raw_len(image, type);
	}
	for (uint32_t type = SNAP_SECTION_TYPE_MAX - 1;
	     type > 0 && snap_expands_too_much(rows, file); type--) {
		if (!image->packed[type])
			continue;
		file += raw_len(image, type) - image->packed_len[type];
		unpack_image_section(image, type);
	}
}

int snap_image_pack(struct snap_image *image)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	struct progress progress = progress_begin("compressing", NULL, image_len(image));
	int err = zstd ? 0 : -ENOMEM;
	uint64_t done = 0;

	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX && !err; type++) {
		if (!image->rows[type].row)
			continue;
		progress_show(&progress, done);
		err = pack(image, zstd, type);
		done += raw_len(image, type);
	}
	progress_end(&progress);
	ZSTD_freeCCtx(zstd);
	if (!err)
		limit_expansion(image);
	return err;
}

static uint64_t row_bytes(const struct snap_section *section)
{
	return section->count * snap_shapes[section->type].row_size;
}

/* The section must be one zstd frame that states its content size, and nothing after it. */
static int check_frame(const struct snap_reading *r, const struct snap_section *section,
		       const void *packed)
{
	unsigned long long content = ZSTD_getFrameContentSize(packed, section->size);
	uint32_t magic = 0, type = section->type;
	size_t len;

	if (section->size >= sizeof(magic))
		memcpy(&magic, packed, sizeof(magic));
	if (magic != ZSTD_MAGICNUMBER)
		return snap_damaged(r, type, "no zstd frame");
	len = ZSTD_findFrameCompressedSize(packed, section->size);
	if (ZSTD_isError(len))
		return snap_damaged(r, type, "zstd: %s", ZSTD_getErrorName(len));
	if (len != section->size)
		return snap_damaged(r, type, "%" PRIu64 " bytes behind its zstd frame",
				    section->size - len);
	if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR)
		return snap_damaged(r, type, "its zstd frame does not say its size");
	if (content != row_bytes(section))
		return snap_damaged(r, type, "%" PRIu64 " rows in a zstd frame of %llu bytes",
				    section->count, content);
	return 0;
}

/* Decompresses in one call: the rows are the window, whatever window size the frame requests. */
static int decompress_section(const struct snap_reading *r, const struct snap_section *section,
			      ZSTD_DCtx *zstd, const void *packed, void *rows)
{
	size_t want = row_bytes(section);
	size_t len = ZSTD_decompressDCtx(zstd, rows, want, packed, section->size);

	if (ZSTD_getErrorCode(len) == ZSTD_error_memory_allocation)
		return snap_system_error(r, -ENOMEM);
	if (ZSTD_isError(len))
		return snap_damaged(r, section->type, "zstd: %s", ZSTD_getErrorName(len));
	if (len != want)
		return snap_damaged(r, section->type, "%zu bytes of %zu", len, want);
	return 0;
}

static int unpack_file_section(const struct snap_reading *r, const char *bytes, ZSTD_DCtx *zstd,
			       const struct snap_section *section, struct snapshot *s)
{
	void *rows = snap_own_rows(s, section->type, section->count);
	int err = rows ? decompress_section(r, section, zstd, bytes + section->offset, rows) :
			 snap_system_error(r, -ENOMEM);

	s->is_compressed = true;
	if (!err && s->memory[0].bytes)
		huge_pages_drop(s->memory[0].bytes, s->memory[0].len, section->offset,
			   section->offset + section->size);
	return err;
}

static int check_zstd_frames(const struct snap_reading *r, const char *bytes)
{
	int err = 0;

	for (uint32_t i = 0; i < r->header.section_nr && !err; i++)
		if (r->table[i].encoding == SNAP_ZSTD)
			err = check_frame(r, &r->table[i], bytes + r->table[i].offset);
	return err;
}

/* All sections share zstd's own memory: for a small section it is larger than the rows. */
static int unpack_all(const struct snap_reading *r, const char *bytes, struct snapshot *s)
{
	ZSTD_DCtx *zstd = NULL;
	int err = 0;

	for (uint32_t i = 0; i < r->header.section_nr && !err; i++) {
		const struct snap_section *section = &r->table[i];

		if (section->encoding != SNAP_ZSTD) {
			s->rows[section->type] =
				(struct snap_rows){ bytes + section->offset, section->count };
			continue;
		}
		if (!zstd)
			zstd = ZSTD_createDCtx();
		err = zstd ? unpack_file_section(r, bytes, zstd, section, s) : snap_system_error(r, -ENOMEM);
	}
	ZSTD_freeDCtx(zstd);
	return err;
}

/* Checks all frames before it allocates memory for any. */
int snap_unpack(const struct snap_reading *r, const char *bytes, struct snapshot *s)
{
	return check_zstd_frames(r, bytes) ?: unpack_all(r, bytes, s);
}
