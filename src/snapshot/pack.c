// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/huge_pages.h"
#include "base/progress.h"
#include "snapshot/image.h"
#include "snapshot/reader.h"

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
