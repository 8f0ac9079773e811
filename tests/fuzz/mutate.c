// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mutate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "snapshot/format.h"

#define ROWS_MAX 65536 /* bytes of a table that is taken apart */

/* A function of libFuzzer: changes the bytes in place, within max_size, and returns the new size. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* The rows of one section, decoded. */
struct table {
	bool is_there;
	bool is_compressed;
	uint8_t *row;
	uint64_t nr;
};

struct tables {
	struct table of[SNAP_SECTION_TYPE_MAX];
};

static uint32_t row_size(uint32_t type)
{
	return snap_shapes[type].row_size;
}

/* ---- a file with its checksums made right ------------------------------------------------- */

static void seal(uint8_t *data, size_t size)
{
	struct snap_header header;
	struct snap_section *section;
	size_t table_len;

	if (size < sizeof(header))
		return;
	memcpy(&header, data, sizeof(header));
	header.file_size = size;
	table_len = (size_t)header.section_nr * sizeof(*section);
	if (table_len > size - sizeof(header))
		return;
	section = malloc(table_len + 1);
	memcpy(section, data + sizeof(header), table_len);
	for (uint32_t i = 0; i < header.section_nr; i++)
		if (section[i].offset <= size && section[i].size <= size - section[i].offset)
			section[i].checksum = snap_checksum(data + section[i].offset,
							    section[i].size);
	header.checksum = snap_header_checksum(&header, section);
	memcpy(data, &header, sizeof(header));
	memcpy(data + sizeof(header), section, table_len);
	free(section);
}

/* ---- taken apart -------------------------------------------------------------------------- */

static void release(struct tables *tables)
{
	for (uint32_t type = 0; type < SNAP_SECTION_TYPE_MAX; type++)
		free(tables->of[type].row);
}

static bool take_section(struct tables *tables, const struct snap_section *section,
			 const uint8_t *data, size_t size)
{
	struct table *table = section->type < SNAP_SECTION_TYPE_MAX ? &tables->of[section->type] :
			      NULL;
	uint64_t len;

	if (!table || table->is_there || !row_size(section->type) || section->offset > size ||
	    section->size > size - section->offset ||
	    section->count > ROWS_MAX / row_size(section->type))
		return false;
	len = section->count * row_size(section->type);
	*table = (struct table){
		.is_there = true,
		.is_compressed = section->encoding == SNAP_ZSTD,
		.row = malloc(ROWS_MAX),
		.nr = section->count,
	};
	if (table->is_compressed)
		return ZSTD_decompress(table->row, ROWS_MAX, data + section->offset,
				       section->size) == len;
	if (section->size == len)
		memcpy(table->row, data + section->offset, len);
	return section->size == len;
}

static bool take_apart(struct tables *tables, const uint8_t *data, size_t size)
{
	struct snap_header header;
	struct snap_section section;

	if (size < sizeof(header))
		return false;
	memcpy(&header, data, sizeof(header));
	if (header.section_nr > (size - sizeof(header)) / sizeof(section))
		return false;
	for (uint32_t i = 0; i < header.section_nr; i++) {
		memcpy(&section, data + sizeof(header) + i * sizeof(section), sizeof(section));
		if (!take_section(tables, &section, data, size))
			return false;
	}
	return true;
}

/* ---- put together ------------------------------------------------------------------------- */

struct output {
	uint8_t *bytes;
	size_t len, max;
	struct snap_header header;
	struct snap_section section[SNAP_SECTION_TYPE_MAX];
};

static bool put_section(struct output *out, uint32_t type, const struct table *table)
{
	size_t len = table->nr * row_size(type);
	struct snap_section *section = &out->section[out->header.section_nr++];

	out->len = (out->len + SNAP_ALIGN - 1) & -(size_t)SNAP_ALIGN;
	*section = (struct snap_section){ .type = type, .offset = out->len, .count = table->nr,
					  .size = len };
	if (out->len > out->max || len + 64 > out->max - out->len)
		return false;
	if (table->is_compressed) {
		section->encoding = SNAP_ZSTD;
		section->size = ZSTD_compress(out->bytes + out->len, out->max - out->len,
					      table->row, len, 1);
		if (ZSTD_isError(section->size))
			return false;
	} else {
		memcpy(out->bytes + out->len, table->row, len);
	}
	out->len += section->size;
	return true;
}

/* The new size, or 0 if it does not fit. */
static size_t put_together(const struct tables *tables, uint8_t *data, size_t max_size)
{
	struct output out = {
		.bytes = calloc(1, max_size), .max = max_size,
		.header = { .magic = SNAP_MAGIC, .version = SNAP_VERSION,
			    .header_size = sizeof(out.header) },
	};
	bool fits = true;
	size_t table_len;

	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		out.len += tables->of[type].is_there * sizeof(*out.section);
	table_len = out.len;
	out.len += sizeof(out.header);
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX && fits; type++)
		if (tables->of[type].is_there)
			fits = put_section(&out, type, &tables->of[type]);
	out.len = (out.len + SNAP_ALIGN - 1) & -(size_t)SNAP_ALIGN;
	fits = fits && out.len <= max_size;
	if (fits) {
		memcpy(out.bytes, &out.header, sizeof(out.header));
		memcpy(out.bytes + sizeof(out.header), out.section, table_len);
		memcpy(data, out.bytes, out.len);
		seal(data, out.len);
	}
	free(out.bytes);
	return fits ? out.len : 0;
}

/* ---- one change, and the repair of the rest ----------------------------------------------- */

static bool is_column(uint32_t type)
{
	return type >= SNAP_TRACE_SIZE && type != SNAP_GAPS;
}

static bool is_of_traces(uint32_t type)
{
	return (type >= SNAP_TRACE_SIZE && type <= SNAP_TRACE_THREAD) || type == SNAP_TRACE_WEIGHT;
}

/* Gives every trace column as many rows as the sizes have; new rows repeat the old ones. */
static void resize_traces(struct tables *tables, uint64_t nr)
{
	for (uint32_t type = SNAP_TRACE_SIZE; type < SNAP_SECTION_TYPE_MAX; type++) {
		struct table *column = &tables->of[type];
		uint32_t width = row_size(type);

		if (!column->nr || !is_of_traces(type))
			continue;
		for (uint64_t i = column->nr; i < nr; i++)
			memcpy(column->row + i * width, column->row + (i - column->nr) * width,
			       width);
		column->nr = nr;
	}
}

static void change_rows(struct table *table, uint32_t type)
{
	size_t len = table->nr * row_size(type);
	size_t max = is_column(type) ? len : len + 256;

	if (!table->is_there || !max || max > ROWS_MAX)
		return;
	len = LLVMFuzzerMutate(table->row, len, max);
	if (!is_column(type))
		table->nr = len / row_size(type);
}

/* Each string ends at its NUL and the next one starts there. */
static void mend_strings(struct tables *tables)
{
	struct table *bytes = &tables->of[SNAP_STRING_BYTES];
	struct table *start = &tables->of[SNAP_STRING_START];
	uint64_t *at = (uint64_t *)start->row;

	if (!bytes->nr || !start->is_there)
		return;
	bytes->row[0] = bytes->row[bytes->nr - 1] = 0;
	start->nr = 0;
	for (uint64_t i = 0; i < bytes->nr; i++) {
		if (i && bytes->row[i - 1])
			continue;
		if (start->nr == ROWS_MAX / sizeof(*at))
			bytes->nr = i; /* and that was all */
		else
			at[start->nr++] = i;
	}
}

static void mend_tracebacks(struct tables *tables)
{
	struct table *table = &tables->of[SNAP_TRACEBACKS];
	struct table *frames = &tables->of[SNAP_TRACEBACK_FRAMES];
	struct snap_traceback *row = (struct snap_traceback *)table->row;
	uint64_t at = 0;

	if (!table->nr)
		return;
	memset(row, 0, sizeof(*row));
	for (uint64_t i = 1; i < table->nr; i++) {
		row[i].first = at;
		if (row[i].nframe > frames->nr - at || i == table->nr - 1)
			row[i].nframe = frames->nr - at;
		row[i].flags &= SNAP_TRACEBACK_LIMITED | SNAP_TRACEBACK_BROKEN | 0x700;
		row[i].reserved = 0;
		at += row[i].nframe;
	}
}

/* Ids from `least` on that are out of range become some that are not. */
static void mend_ids(struct tables *tables, uint32_t type, size_t offset, uint32_t least,
		     uint32_t to)
{
	struct table *table = &tables->of[type];
	uint32_t id_nr = tables->of[to].nr;
	uint32_t id;

	for (uint64_t i = 0; i < table->nr && id_nr > least; i++) {
		uint8_t *at = table->row + i * row_size(type) + offset;

		memcpy(&id, at, sizeof(id));
		if (id >= id_nr || id < least)
			id = least + id % (id_nr - least);
		memcpy(at, &id, sizeof(id));
	}
}

#define MEND(tables, type, struct_, field, to) \
	mend_ids(tables, type, offsetof(struct struct_, field), 0, to)

static void mend_frames(struct tables *tables)
{
	struct table *table = &tables->of[SNAP_FRAMES];
	struct snap_frame *row = (struct snap_frame *)table->row;

	if (table->nr)
		memset(row, 0, sizeof(*row));
	for (uint64_t i = 0; i < table->nr; i++) {
		row[i].flags &= SNAP_FRAME_FLAGS;
		row[i].reserved = 0;
	}
	MEND(tables, SNAP_FRAMES, snap_frame, filename, SNAP_STRING_START);
	MEND(tables, SNAP_FRAMES, snap_frame, function, SNAP_STRING_START);
	MEND(tables, SNAP_FRAMES, snap_frame, object, SNAP_OBJECTS);
}

/* As many as there are frames, and none where the frame has no line. */
static void mend_first_lines(struct tables *tables)
{
	const struct table *frames = &tables->of[SNAP_FRAMES];
	const struct snap_frame *frame = (const struct snap_frame *)frames->row;
	struct table *table = &tables->of[SNAP_FRAME_FIRST_LINE];
	uint32_t *first_line = (uint32_t *)table->row;

	if (!table->nr)
		return;
	for (uint64_t i = 0; i < frames->nr; i++)
		if (i >= table->nr || !frame[i].lineno)
			first_line[i] = 0;
	table->nr = frames->nr;
}

/* Replaces values that are no weights by weights, most of which are so small that sums fit. */
static void mend_weights(struct tables *tables)
{
	struct table *table = &tables->of[SNAP_TRACE_WEIGHT];
	uint64_t *bits = (uint64_t *)table->row;

	for (uint64_t i = 0; i < table->nr; i++)
		if (!snap_is_weight(bits[i]))
			bits[i] = SNAP_WEIGHT_ONE + bits[i] % (32ull << 52);
}

/* Gaps in which nothing was recorded, one after the other. */
static void mend_gaps(struct tables *tables)
{
	struct table *table = &tables->of[SNAP_GAPS];
	struct snap_gap *gap = (struct snap_gap *)table->row;
	uint64_t end_ns = 0;

	for (uint64_t i = 0; i < table->nr; i++) {
		gap[i].start_ns = end_ns + gap[i].start_ns % 1000;
		end_ns = gap[i].end_ns = gap[i].start_ns + 1 + gap[i].end_ns % 1000;
	}
}

static void mend(struct tables *tables)
{
	mend_strings(tables);
	mend_tracebacks(tables);
	mend_frames(tables);
	mend_first_lines(tables);
	MEND(tables, SNAP_METADATA, snap_pair, key, SNAP_STRING_START);
	MEND(tables, SNAP_METADATA, snap_pair, value, SNAP_STRING_START);
	MEND(tables, SNAP_COUNTERS, snap_counter, name, SNAP_STRING_START);
	MEND(tables, SNAP_PROBES, snap_probe, object, SNAP_OBJECTS);
	MEND(tables, SNAP_PROBES, snap_probe, function, SNAP_STRING_START);
	MEND(tables, SNAP_PROBES, snap_probe, instruction, SNAP_STRING_START);
	MEND(tables, SNAP_OBJECTS, snap_object, path, SNAP_STRING_START);
	MEND(tables, SNAP_OBJECTS, snap_object, build_id, SNAP_STRING_START);
	mend_ids(tables, SNAP_TRACEBACK_FRAMES, 0, 1, SNAP_FRAMES);
	mend_ids(tables, SNAP_TRACE_TRACEBACK, 0, 0, SNAP_TRACEBACKS);
	mend_weights(tables);
	mend_gaps(tables);
}

static size_t mutate_table(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	uint32_t type = 1 + seed / 8 % (SNAP_SECTION_TYPE_MAX - 1);
	struct tables tables = { 0 };
	size_t made = 0;

	if (!take_apart(&tables, data, size))
		goto out;
	if (seed >> 8 & 15)
		change_rows(&tables.of[type], type);
	else
		resize_traces(&tables, seed >> 12 & 63);
	if (!(seed >> 18 & 7))
		tables.of[type].is_compressed ^= 1;
	if (!(seed >> 21 & 31))
		tables.of[type].is_there = false;
	if (seed >> 26 & 7)
		mend(&tables);
	made = put_together(&tables, data, max_size);
out:
	release(&tables);
	return made;
}

size_t mutate_snapshot(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	size_t made = 0;

	if (seed % 8 > 2)
		made = mutate_table(data, size, max_size, seed);
	if (made)
		return made;
	if (seed % 8 == 2 && size > sizeof(struct snap_header)) {
		/* A field of the header or of the section table. */
		size_t at = seed / 8 * 4 % (size < 640 ? size - 4 : 636);

		LLVMFuzzerMutate(data + at, 4, 4);
	} else {
		size = LLVMFuzzerMutate(data, size, max_size);
	}
	if (seed % 8)
		seal(data, size);
	return size;
}
