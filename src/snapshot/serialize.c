// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/builder.h"

static void add_piece(struct snap_image *image, const void *bytes, size_t len)
{
	if (!len)
		return;
	image->piece[image->piece_nr++] = (struct iovec){ (void *)bytes, len };
	image->header.file_size += len;
}

static void add_section(struct snap_image *image, struct snap_section *section, uint32_t type,
			const struct snap_rows *rows)
{
	static const char padding[SNAP_ALIGN];
	bool is_packed = image->packed[type];
	const void *bytes = is_packed ? image->packed[type] : rows->row;

	*section = (struct snap_section){
		.type = type,
		.encoding = is_packed ? SNAP_ZSTD : SNAP_RAW,
		.offset = image->header.file_size,
		.size = is_packed ? image->packed_len[type] :
				    rows->nr * snap_shapes[type].row_size,
		.count = rows->nr,
	};
	section->checksum = snap_checksum(bytes, section->size);
	add_piece(image, bytes, section->size);
	add_piece(image, padding, -section->size % SNAP_ALIGN);
}

int snap_image_make(struct snap_image *image, const struct snapshot *snapshot,
		    const struct snapshot_save_options *options)
{
	const struct snap_rows *rows = image->rows;
	struct snap_section *section = image->section;
	int err = 0;

	*image = (struct snap_image){
		.header = {
			.magic = SNAP_MAGIC,
			.version = SNAP_VERSION,
			.header_size = sizeof(image->header),
		},
	};
	memcpy(image->rows, snapshot->rows, sizeof(image->rows));
	if (snapshot->is_compact || (options && options->compact))
		err = snap_image_compact(image);
	if (!err && options && options->compress)
		err = snap_image_pack(image);
	if (err)
		return err;
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		image->header.section_nr += !!rows[type].row;
	add_piece(image, &image->header, sizeof(image->header));
	add_piece(image, image->section, image->header.section_nr * sizeof(*section));
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		if (rows[type].row)
			add_section(image, section++, type, &rows[type]);
	image->header.checksum = snap_header_checksum(&image->header, image->section);
	return 0;
}

void snap_image_release(struct snap_image *image)
{
	for (uint32_t type = 0; type < SNAP_SECTION_TYPE_MAX; type++) {
		free(image->packed[type]);
		free(image->own[type]);
	}
}

int snapshot__serialize(const struct snapshot *snapshot,
			const struct snapshot_save_options *options, void **ret_bytes,
			size_t *ret_len)
{
	struct snap_image image;
	int err = snap_image_make(&image, snapshot, options);
	char *bytes = err ? NULL : malloc(image.header.file_size);
	char *end = bytes;

	if (bytes) {
		for (uint32_t i = 0; i < image.piece_nr; i++)
			end = mempcpy(end, image.piece[i].iov_base, image.piece[i].iov_len);
		*ret_bytes = bytes;
		*ret_len = image.header.file_size;
	}
	snap_image_release(&image);
	return bytes ? 0 : -ENOMEM;
}

int snapshot_builder__serialize(struct snapshot_builder *b, void **ret_bytes, size_t *ret_len)
{
	struct snapshot view;

	snap_view(b, &view);
	return snapshot__serialize(&view, NULL, ret_bytes, ret_len);
}
