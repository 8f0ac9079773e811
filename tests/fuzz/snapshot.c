// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as a snapshot: refused in one line, or everything that can be asked of it holds. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/array.h"
#include "check.h"
#include "reason.h"
#include "render.h"
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

/*
 * LLVMFuzzerCustomMutator() for snapshots. Checksums and cross references would stop nearly
 * every plain mutation at the door, so most of the time a file is taken apart, one table of it
 * is changed, and it is put together again as a file that may well be accepted.
 */
static size_t mutate_snapshot(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
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

/* Chosen by the input itself, so that it always goes the same way. */
struct choice {
	struct engine_options options;
	struct filter filter;
	const struct renderer *renderer;
};

static void choose(struct choice *choice, const uint8_t *data, size_t size)
{
	static const char *const patterns[] = { "*", "*.c", "?*a*", "[!a-z]*", "<unknown>", "" };
	static const char *const frames[] = { "f*", "a.c", "*/src", "*<*", "*(*" };
	uint64_t random = size;
	size_t renderer_nr;
	const struct renderer *renderer = renderer_table(&renderer_nr);

	for (size_t i = 0; i < size; i++)
		random = (random ^ data[i]) * 0x100000001b3;
	random ^= random >> 29;
	*choice = (struct choice){
		.options = {
			.key_type = random % KEY_TYPE_NR,
			.keep_wrappers = random >> 8 & 1,
			.tracemalloc = (random >> 46 & 3) == 0,
			.skip = &frames[(random >> 48) % ARRAY_SIZE(frames)],
			.skip_nr = random >> 52 & 1,
			.project = &frames[(random >> 53) % ARRAY_SIZE(frames)],
			.project_nr = random >> 57 & 1,
			.sort = (random >> 10) % SORT_ORDER_NR,
			.cumulative = random >> 12 & 1,
			.select.no_gap_blocks = random >> 13 & 1,
		},
		.filter = {
			.inclusive = random >> 16 & 1,
			.all_frames = random >> 17 & 1,
			.has_domain = (random >> 18 & 3) == 0,
			.has_lineno = (random >> 20 & 3) == 0,
			.lineno = random >> 22 & 1,
			.filename_pattern = random >> 44 & 3 ? patterns[(random >> 24) % 6] : NULL,
			.function_pattern = random >> 28 & 1 ? patterns[(random >> 29) % 6] : NULL,
			.object_pattern = random >> 32 & 1 ? patterns[(random >> 33) % 6] : NULL,
		},
		.renderer = &renderer[(random >> 40) % renderer_nr],
	};
	if (!key_type_has_cumulative(choice->options.key_type))
		choice->options.cumulative = false;
}

static void every_key_type(const struct snapshot *snapshot)
{
	for (int i = 0; i < 2 * KEY_TYPE_NR; i++) {
		struct engine_options options = { .key_type = i / 2, .cumulative = i % 2 };
		struct statistics *statistics = check_statistics(snapshot, &options);

		MUST(!statistics || !options.cumulative ||
		     key_type_has_cumulative(options.key_type));
		MUST(!statistics || statistics->total_estimate ||
		     (uint64_t)statistics->total.count == snapshot__tables(snapshot)->trace_nr);
		statistics_free(statistics);
	}
}

/* Protobuf: fields with a length, one after another. */
static bool is_message(const unsigned char *at, const unsigned char *end)
{
	while (at < end) {
		size_t bytes = 0;
		int shift = 0;

		if ((*at++ & 7) != 2)
			return false;
		do
			bytes |= at < end ? (size_t)(*at & 0x7f) << shift : SIZE_MAX;
		while (shift += 7, at < end && *at++ & 0x80);
		if (bytes > (size_t)(end - at))
			return false;
		at += bytes;
	}
	return true;
}

static void check_output(const struct renderer *renderer, const char *text, size_t len)
{
	json_t *json;

	if (renderer->is_binary) {
		MUST(len > 2);
		MUST(strcmp(renderer->name, "pprof") || !memcmp(text, "\x1f\x8b", 2)); /* gzip */
		MUST(strcmp(renderer->name, "otlp") || is_message((const void *)text, (const void *)(text + len)));
		return;
	}
	check_clean(text, len);
	if (strcmp(renderer->name, "json"))
		return;
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	MUST(json);
	json_decref(json);
}

static void rendered(const struct renderer *renderer, const struct report *report)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	MUST(!renderer->report(out, report));
	MUST(!fclose(out));
	check_output(renderer, text, len);
	free(text);
}

/* A frame and the facts about its function stay together. */
static void check_first_lines(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);

	for (uint32_t i = 0; t->frame_first_line && i < t->frame_nr; i++)
		MUST(!t->frame_first_line[i] || t->frame[i].lineno);
}

static void shown(const struct renderer *renderer, const struct snapshot *snapshot)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	MUST(!(renderer->show ? renderer->show(out, snapshot) : render_traced(out, snapshot, "")));
	MUST(!fclose(out));
	if (renderer->show)
		check_output(renderer, text, len);
	else
		check_clean(text, len);
	free(text);
	free(losses_line(snapshot));
}

static void reports(const struct snapshot *snapshot, const struct choice *choice)
{
	struct statistics *statistics = check_statistics(snapshot, &choice->options);
	struct report report = {
		.statistics = statistics, .snapshot = &snapshot, .snapshot_nr = 1, .top = 30,
	};

	if (statistics)
		rendered(choice->renderer, &report);
	statistics_free(statistics);
	shown(choice->renderer, snapshot);
	check_first_lines(snapshot);
}

static void check_no_difference(const struct statistic *group)
{
	const struct estimate *estimate = group->estimate;

	MUST(!group->diff.size && !group->diff.count);
	MUST(!estimate || (estimate->size_diff.low <= 0 && estimate->size_diff.high >= 0));
	MUST(!estimate || (estimate->count_diff.low <= 0 && estimate->count_diff.high >= 0));
}

static void itself_compared(const struct snapshot *snapshot, const struct choice *choice)
{
	static const int allowed[] = { -ERANGE, -ENOMEM, -ENODATA, 0 };
	const struct snapshot *both[] = { snapshot, snapshot };
	struct report report = { .snapshot = both, .snapshot_nr = 2, .top = 30 };
	struct statistics *diff = NULL;
	struct reason why = { "" };
	int err = snapshot_compare(snapshot, snapshot, &choice->options, &diff, &why);

	if (err) {
		check_refused(err, &why, allowed);
		return;
	}
	MUST(diff->is_diff && !diff->total_diff.size && !diff->total_diff.count);
	for (size_t i = 0; i < diff->statistic_nr; i++)
		check_no_difference(&diff->statistic[i]);
	report.statistics = diff;
	rendered(choice->renderer, &report);
	statistics_free(diff);
}

/* The statistics of what a filter keeps are the filtered statistics. */
static void filtered(const struct snapshot *snapshot, const struct choice *choice)
{
	static const int allowed[] = { -ENOMEM, -ENODATA, 0 };
	struct engine_options selecting = choice->options;
	struct snapshot *kept = NULL;
	struct statistics *before, *after;
	struct reason why = { "" };
	int err;

	selecting.select.filter = &choice->filter;
	selecting.select.filter_nr = 1;
	err = snapshot_filter_traces(snapshot, &selecting, &kept, &why);
	if (err) {
		check_refused(err, &why, allowed);
		return;
	}
	before = check_statistics(snapshot, &selecting);
	after = check_statistics(kept, &choice->options);
	if (before && after)
		check_same(before, after);
	statistics_free(before);
	statistics_free(after);
	MUST(!snapshot__set_metadata(kept, "filters", choice->filter.filename_pattern ?: "none"));
	check_round_trip(kept, &choice->options);
	snapshot__close(kept);
}

/* CPython's sizes are signed: larger sizes are written but not read. */
static bool fits_json(const struct snapshot *snapshot)
{
	uint64_t sizes = 0;

	for (uint64_t i = 0; i < snapshot__tables(snapshot)->trace_nr; i++)
		sizes |= snapshot__trace(snapshot, i).size;
	return sizes <= INT64_MAX;
}

static void tracebacks(const struct snapshot *snapshot)
{
	struct traceback_format_options options = { .has_limit = true, .limit = -3 };
	uint32_t nr = snapshot__tables(snapshot)->traceback_nr, nframe, total_nframe;
	struct frame_view *frame;
	char *text;

	for (uint32_t i = 0; i < nr && i < 8; i++) {
		MUST(!traceback_read(snapshot, i, &frame, &nframe, &total_nframe));
		options.limit += 2;
		text = traceback_format(frame, nframe, &options);
		MUST(text);
		free(text);
		free(frame);
	}
}

static void exercise(const struct snapshot *snapshot, const struct choice *choice)
{
	struct snapshot *copy;

	every_key_type(snapshot);
	reports(snapshot, choice);
	itself_compared(snapshot, choice);
	filtered(snapshot, choice);
	tracebacks(snapshot);
	if (fits_json(snapshot))
		check_export(snapshot);
	check_round_trip(snapshot, &choice->options);
	MUST(!snapshot__select(snapshot, NULL, &copy));
	check_same_snapshots(snapshot, copy, &choice->options);
	check_round_trip(copy, &choice->options);
	snapshot__close(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int allowed[] = { -EBADMSG, -ENOTSUP, -ENOMEM, 0 };
	void *bytes = malloc(size ?: 1); /* aligned, and exactly as long: ASan sees its end */
	struct reason why = { "" };
	struct choice choice;
	struct snapshot *snapshot;

	memcpy(bytes, data, size);
	snapshot = snapshot__open_memory(bytes, size, &why);
	if (snapshot) {
		choose(&choice, data, size);
		exercise(snapshot, &choice);
	} else {
		check_refused(-errno, &why, allowed);
		check_one_line(&why);
	}
	snapshot__close(snapshot);
	free(bytes);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	return mutate_snapshot(data, size, max_size, seed);
}
