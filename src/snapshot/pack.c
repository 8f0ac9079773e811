// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/image.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define LEVEL 1 /* for columns of numbers as small as level 3, and faster */

static size_t raw_len(const struct snap_image *image, uint32_t type)
{
	return image->rows[type].nr * snap_shapes[type].row_size;
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
	int err = zstd ? 0 : -ENOMEM;

	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX && !err; type++)
		if (image->rows[type].row)
			err = pack(image, zstd, type);
	ZSTD_freeCCtx(zstd);
	if (!err)
		limit_expansion(image);
	return err;
}
