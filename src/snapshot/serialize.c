// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rows {
	const void *row;
	uint64_t nr;
};

static struct rows rows_of(const struct snapshot_builder *b, uint32_t type)
{
	if (type == SNAP_STRING_START)
		return (struct rows){ b->string.start, b->string.start_nr };
	if (type == SNAP_STRING_BYTES)
		return (struct rows){ b->string.bytes, b->string.bytes_nr };
	return (struct rows){ b->table[type].row, b->table[type].nr };
}

/* A column that was asked for is written even if it is empty; domains only where one is not 0. */
static bool is_written(const struct snapshot_builder *b, uint32_t type)
{
	uint32_t column = snap_shapes[type].column;

	if (type == SNAP_TRACE_DOMAIN && !b->domains)
		return false;
	return !column || b->columns & column;
}

static void add_piece(struct snap_image *image, const void *bytes, size_t len)
{
	if (!len)
		return;
	image->piece[image->piece_nr++] = (struct iovec){ (void *)bytes, len };
	image->header.file_size += len;
}

static void add_section(struct snap_image *image, struct snap_section *section, uint32_t type,
			const struct rows *rows)
{
	static const char padding[SNAP_ALIGN];

	*section = (struct snap_section){
		.type = type,
		.encoding = SNAP_RAW,
		.offset = image->header.file_size,
		.size = rows->nr * snap_shapes[type].row_size,
		.count = rows->nr,
	};
	section->checksum = snap_checksum(rows->row, section->size);
	add_piece(image, rows->row, section->size);
	add_piece(image, padding, -section->size % SNAP_ALIGN);
}

void snap_image_make(struct snap_image *image, const struct snapshot_builder *b)
{
	struct snap_section *section = image->section;

	*image = (struct snap_image){
		.header = {
			.magic = SNAP_MAGIC,
			.version = SNAP_VERSION,
			.header_size = sizeof(image->header),
		},
	};
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		image->header.section_nr += is_written(b, type);
	add_piece(image, &image->header, sizeof(image->header));
	add_piece(image, image->section, image->header.section_nr * sizeof(*section));
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++) {
		struct rows rows = rows_of(b, type);

		if (is_written(b, type))
			add_section(image, section++, type, &rows);
	}
	image->header.checksum = snap_header_checksum(&image->header, image->section);
}

int snapshot_builder__serialize(struct snapshot_builder *b, void **ret_bytes, size_t *ret_len)
{
	struct snap_image image;
	char *bytes, *end;

	snap_image_make(&image, b);
	bytes = end = malloc(image.header.file_size);
	if (!bytes)
		return -ENOMEM;
	for (uint32_t i = 0; i < image.piece_nr; i++)
		end = mempcpy(end, image.piece[i].iov_base, image.piece[i].iov_len);
	*ret_bytes = bytes;
	*ret_len = image.header.file_size;
	return 0;
}
