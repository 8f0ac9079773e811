// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/pack_report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "render/json_parts.h"
#include "report/report_layout.h"
#include "report/report_leaks.h"

/* A row of the file: what it has now, and what was written of it last. */
struct shown_row {
	uint64_t size, count, size_before, count_before;
	struct spread spread;
	bool is_touched;
};

/* A traceback of the file, the same. */
struct shown_churn {
	struct report_churn now;
	bool is_touched;
};

struct replay {
	const struct report_data *data;
	const struct report_layout *layout;
	struct report_cell *cell; /* by row of the data: its last cell */
	struct spread *spread;
	struct report_churn *churn; /* by traceback of the data */
	struct shown_row *row;
	struct shown_churn *traceback;
	uint32_t *touched; /* numbers of rows, then of tracebacks */
	size_t touched_nr;
};

static int replay_init(struct replay *replay, const struct report_data *data, const struct report_layout *layout)
{
	size_t most = layout->row_nr > layout->traceback_nr ? layout->row_nr : layout->traceback_nr;

	*replay = (struct replay){ .data = data, .layout = layout };
	replay->cell = calloc(data->row_nr ?: 1, sizeof(*replay->cell));
	replay->spread = calloc(data->is_sampled && data->row_nr ? data->row_nr : 1, sizeof(*replay->spread));
	replay->churn = calloc(data->traceback_nr ?: 1, sizeof(*replay->churn));
	replay->row = calloc(layout->row_nr ?: 1, sizeof(*replay->row));
	replay->traceback = calloc(layout->traceback_nr ?: 1, sizeof(*replay->traceback));
	replay->touched = calloc(most ?: 1, sizeof(*replay->touched));
	return replay->cell && replay->spread && replay->churn && replay->row && replay->traceback &&
	       replay->touched ? 0 : -ENOMEM;
}

static void replay_release(struct replay *replay)
{
	free(replay->cell);
	free(replay->spread);
	free(replay->churn);
	free(replay->row);
	free(replay->traceback);
	free(replay->touched);
}

static void touch(struct replay *replay, bool *is_touched, uint32_t number)
{
	if (!*is_touched)
		replay->touched[replay->touched_nr++] = number;
	*is_touched = true;
}

static int compare_column_numbers(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static void sort_touched(struct replay *replay)
{
	qsort(replay->touched, replay->touched_nr, sizeof(*replay->touched), compare_column_numbers);
}

/* ---- blocks ------------------------------------------------------------------------------------------------ */

static void moments_move(struct moments *to, const struct moments *now, const struct moments *before)
{
	to->beyond += now->beyond - before->beyond;
	to->variance += now->variance - before->variance;
	to->covariance += now->covariance - before->covariance;
}

/* A row without blocks has no error; the sum of differences may be off by a rounding. */
static void move_spread(struct replay *replay, struct shown_row *row, uint32_t at, const struct spread *now)
{
	moments_move(&row->spread.size, &now->size, &replay->spread[at].size);
	moments_move(&row->spread.count, &now->count, &replay->spread[at].count);
	replay->spread[at] = *now;
	if (!row->count)
		row->spread = (struct spread){};
}

/* Numbers of one row only, however many went into it, are never negative: differences wrap back. */
static void replay_cells(struct replay *replay, const struct report_column *column)
{
	for (size_t i = 0; i < column->cell_nr; i++) {
		const struct report_cell *cell = &column->cell[i];
		uint32_t number = replay->layout->row[cell->row];
		struct shown_row *row = &replay->row[number];

		touch(replay, &row->is_touched, number);
		row->size += cell->size - replay->cell[cell->row].size;
		row->count += cell->count - replay->cell[cell->row].count;
		replay->cell[cell->row] = *cell;
		if (column->spread)
			move_spread(replay, row, cell->row, &column->spread[i]);
	}
	sort_touched(replay);
}

/* Blocks may have moved between rows that are one here. */
static void drop_unchanged(struct replay *replay)
{
	size_t kept = 0;

	for (size_t i = 0; i < replay->touched_nr; i++) {
		struct shown_row *row = &replay->row[replay->touched[i]];

		row->is_touched = false;
		if (row->size == row->size_before && row->count == row->count_before && !replay->data->is_sampled)
			continue;
		row->size_before = row->size;
		row->count_before = row->count;
		replay->touched[kept++] = replay->touched[i];
	}
	replay->touched_nr = kept;
}

static void write_touched(struct packed_json *json, const struct replay *replay, const char *name)
{
	uint32_t before = 0;

	packed_json__begin(json, name);
	for (size_t i = 0; i < replay->touched_nr; i++) {
		packed_json__uint(json, replay->touched[i] - before);
		before = replay->touched[i];
	}
	packed_json__end(json);
}

static void write_moments(struct packed_json *json, const struct replay *replay, const char *name, size_t offset)
{
	packed_json__text(json, ",");
	packed_json__begin(json, name);
	for (size_t i = 0; i < replay->touched_nr; i++) {
		const struct spread *spread = &replay->row[replay->touched[i]].spread;

		packed_json__real(json, *(const double *)((const char *)spread + offset));
	}
	packed_json__end(json);
}

static void write_cells(struct packed_json *json, struct replay *replay)
{
	packed_json__text(json, ",");
	write_touched(json, replay, "row");
	packed_json__text(json, ",");
	packed_json__begin(json, "size");
	for (size_t i = 0; i < replay->touched_nr; i++)
		packed_json__uint(json, replay->row[replay->touched[i]].size);
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "count");
	for (size_t i = 0; i < replay->touched_nr; i++)
		packed_json__uint(json, replay->row[replay->touched[i]].count);
	packed_json__end(json);
	if (!replay->data->is_sampled)
		return;
	write_moments(json, replay, "size_beyond", offsetof(struct spread, size.beyond));
	write_moments(json, replay, "size_variance", offsetof(struct spread, size.variance));
	write_moments(json, replay, "size_covariance", offsetof(struct spread, size.covariance));
	write_moments(json, replay, "count_beyond", offsetof(struct spread, count.beyond));
	write_moments(json, replay, "count_variance", offsetof(struct spread, count.variance));
	write_moments(json, replay, "count_covariance", offsetof(struct spread, count.covariance));
}

/* ---- churn --------------------------------------------------------------------------------------------------- */

static void replay_churn(struct replay *replay, const struct report_column *column)
{
	for (size_t i = 0; i < column->churn_nr; i++) {
		const struct report_churn *churn = &column->churn[i];
		struct report_churn *before = &replay->churn[churn->traceback];
		uint32_t number = replay->layout->traceback[replay->layout->traceback_to[churn->traceback]];
		struct shown_churn *shown = &replay->traceback[number];

		touch(replay, &shown->is_touched, number);
		shown->now.allocations += churn->allocations - before->allocations;
		shown->now.allocated_bytes += churn->allocated_bytes - before->allocated_bytes;
		shown->now.temporary += churn->temporary - before->temporary;
		shown->now.temporary_bytes += churn->temporary_bytes - before->temporary_bytes;
		*before = *churn;
	}
	sort_touched(replay);
	for (size_t i = 0; i < replay->touched_nr; i++)
		replay->traceback[replay->touched[i]].is_touched = false;
}

static void write_churn(struct packed_json *json, const struct replay *replay)
{
	static const struct {
		const char *name;
		size_t offset;
	} columns[] = {
		{ "allocations", offsetof(struct report_churn, allocations) },
		{ "allocated_bytes", offsetof(struct report_churn, allocated_bytes) },
		{ "temporary", offsetof(struct report_churn, temporary) },
		{ "temporary_bytes", offsetof(struct report_churn, temporary_bytes) },
	};

	packed_json__text(json, ",\"churn\":{");
	write_touched(json, replay, "traceback");
	for (size_t column = 0; column < ARRAY_SIZE(columns); column++) {
		packed_json__text(json, ",");
		packed_json__begin(json, columns[column].name);
		for (size_t i = 0; i < replay->touched_nr; i++) {
			const struct report_churn *churn = &replay->traceback[replay->touched[i]].now;

			packed_json__uint(json, *(const uint64_t *)((const char *)churn + columns[column].offset));
		}
		packed_json__end(json);
	}
	packed_json__text(json, "}");
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static void write_column(struct packed_json *json, struct replay *replay, const struct report_column *column)
{
	packed_json__text(json, "{");
	packed_json__value(json, json_incref(column->head), JSON_EMBED);
	replay->touched_nr = 0;
	replay_cells(replay, column);
	drop_unchanged(replay);
	write_cells(json, replay);
	if (column->has_churn) {
		replay->touched_nr = 0;
		replay_churn(replay, column);
		write_churn(json, replay);
	}
	packed_json__text(json, "}");
}

/* Writes ,"snapshots":[…]: of each the facts and the rows that changed. 0 or -ENOMEM. */
static int report_write_columns(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	struct replay replay;
	int err = replay_init(&replay, data, layout);

	packed_json__text(json, ",\"snapshots\":[");
	for (size_t i = 0; i < data->column_nr && !err; i++) {
		packed_json__text(json, i ? "," : "");
		write_column(json, &replay, &data->column[i]);
	}
	packed_json__text(json, "]");
	replay_release(&replay);
	return err;
}

/* ---- names, frames, nodes -------------------------------------------------------------------------------------- */

static void write_strings(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"strings\":[");
	for (uint32_t i = 0; i < layout->string_nr; i++) {
		if (i)
			packed_json__text(json, ",");
		packed_json__value(json, json_clean_string(strpool_get(&data->strings, layout->string_at[i])), 0);
	}
	packed_json__text(json, "]");
}

/* -1: not known. */
static int64_t string_number(const struct report_layout *layout, uint32_t string)
{
	return string && layout->string[string] != IDMAP_NONE ? (int64_t)layout->string[string] : -1;
}

static int64_t frame_function_number(const struct report_layout *layout, const struct report_frame *frame)
{
	return string_number(layout, frame->function);
}

/* Without a line the file is that of the code, which is the object. */
static int64_t frame_file(const struct report_layout *layout, const struct report_frame *frame)
{
	return frame->line || frame->file != frame->object ? string_number(layout, frame->file) : -1;
}

static int64_t frame_line(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return frame->line;
}

static int64_t frame_object(const struct report_layout *layout, const struct report_frame *frame)
{
	return string_number(layout, frame->object);
}

/* Unsigned: hostile files have any number. */
static int64_t frame_offset(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return (int64_t)frame->offset;
}

static int64_t frame_library(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return frame->is_library;
}

static int64_t frame_kind(const struct report_layout *layout, const struct report_frame *frame)
{
	(void)layout;
	return frame->kind;
}

static const struct {
	const char *name;
	int64_t (*value)(const struct report_layout *layout, const struct report_frame *frame);
} frame_columns[] = {
	{ "function", frame_function_number }, { "file", frame_file },	      { "line", frame_line }, { "object", frame_object },
	{ "offset", frame_offset },	{ "library", frame_library }, { "kind", frame_kind },
};

static void write_frames(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"frames\":{");
	for (size_t column = 0; column < ARRAY_SIZE(frame_columns); column++) {
		if (column)
			packed_json__text(json, ",");
		packed_json__begin(json, frame_columns[column].name);
		for (uint32_t i = 0; i < layout->frame_nr; i++) {
			const struct report_frame *frame = &data->frame[layout->frame_at[i]];
			int64_t value = frame_columns[column].value(layout, frame);

			if (frame_columns[column].value == frame_offset)
				packed_json__uint(json, value);
			else
				packed_json__int(json, value);
		}
		packed_json__end(json);
	}
	packed_json__text(json, "}");
}

static void write_nodes(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"nodes\":{");
	packed_json__begin(json, "up");
	for (uint32_t i = 0; i < layout->node_nr; i++)
		packed_json__uint(json, i - layout->node[data->node[layout->node_at[i]].parent]);
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "frame");
	for (uint32_t i = 0; i < layout->node_nr; i++)
		packed_json__int(json, i ? (int64_t)layout->frame[data->node[layout->node_at[i]].frame] : -1);
	packed_json__end(json);
	packed_json__text(json, "}");
}

/* The number of nodes from the most recent call up to the site. */
static uint32_t frames_passed(const struct report_data *data, const struct report_traceback *traceback)
{
	uint32_t passed = 0;

	for (uint32_t node = traceback->node; node && node != traceback->site; node = data->node[node].parent)
		passed++;
	return passed;
}

static void write_tracebacks(struct packed_json *json, const struct report_data *data,
			     const struct report_layout *layout)
{
	uint32_t before = 0;

	packed_json__text(json, ",\"tracebacks\":{");
	packed_json__begin(json, "node");
	for (uint32_t i = 0; i < layout->traceback_nr; i++) {
		uint32_t node = layout->node[data->traceback[layout->traceback_at[i]].node];

		packed_json__uint(json, node - before);
		before = node;
	}
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "passed");
	for (uint32_t i = 0; i < layout->traceback_nr; i++)
		packed_json__uint(json, frames_passed(data, &data->traceback[layout->traceback_at[i]]));
	packed_json__end(json);
	packed_json__text(json, ",");
	packed_json__begin(json, "cut");
	for (uint32_t i = 0; i < layout->traceback_nr; i++)
		packed_json__uint(json, data->traceback[layout->traceback_at[i]].is_cut);
	packed_json__end(json);
	packed_json__text(json, "}");
}

/* ---- keys and rows ---------------------------------------------------------------------------------------------- */

static int64_t key_thread(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->thread;
}

static int64_t key_domain(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->domain;
}

static int64_t key_size_class(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->size_class;
}

static int64_t key_process(const struct report_data *data, const struct report_key *key)
{
	(void)data;
	return key->process;
}

/* The number of the boundaries that the block was born after. */
static int64_t key_birth(const struct report_data *data, const struct report_key *key)
{
	size_t low = 0, high = data->boundary_ns_nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (data->boundary_ns[middle] <= key->birth_after_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct {
	const char *name;
	unsigned int column; /* enum report_key_column */
	int64_t (*value)(const struct report_data *data, const struct report_key *key);
} key_columns[] = {
	{ "thread", REPORT_KEY_THREAD, key_thread },
	{ "domain", REPORT_KEY_DOMAIN, key_domain },
	{ "size_class", REPORT_KEY_SIZE_CLASS, key_size_class },
	{ "birth", REPORT_KEY_BIRTH, key_birth },
	{ "process", REPORT_KEY_PROCESS, key_process },
};

/* A column of one value tells nothing apart. */
static bool is_key_column_needed(const struct report_data *data, const struct report_layout *layout, size_t column)
{
	if (!(layout->limits.key_columns & data->key_columns & key_columns[column].column))
		return false;
	for (uint32_t i = 1; i < layout->key_nr; i++)
		if (key_columns[column].value(data, &layout->key_at[i]) !=
		    key_columns[column].value(data, &layout->key_at[0]))
			return true;
	return false;
}

/* Returns the number of columns. */
static size_t write_keys(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	size_t written = 0;

	packed_json__text(json, ",\"keys\":{");
	for (size_t column = 0; column < ARRAY_SIZE(key_columns); column++) {
		if (!is_key_column_needed(data, layout, column))
			continue;
		packed_json__text(json, written++ ? "," : "");
		packed_json__begin(json, key_columns[column].name);
		for (uint32_t i = 0; i < layout->key_nr; i++)
			packed_json__int(json, key_columns[column].value(data, &layout->key_at[i]));
		packed_json__end(json);
	}
	packed_json__text(json, "}");
	return written;
}

static void write_rows(struct packed_json *json, const struct report_layout *layout, bool has_keys)
{
	uint32_t before = 0;

	packed_json__text(json, ",\"rows\":{");
	packed_json__begin(json, "traceback");
	for (uint32_t i = 0; i < layout->row_nr; i++) {
		packed_json__uint(json, layout->row_at[i].traceback - before);
		before = layout->row_at[i].traceback;
	}
	packed_json__end(json);
	if (has_keys) {
		packed_json__text(json, ",");
		packed_json__begin(json, "key");
		for (uint32_t i = 0; i < layout->row_nr; i++)
			packed_json__uint(json, layout->row_at[i].key);
		packed_json__end(json);
	}
	packed_json__text(json, "}");
}

static json_t *domain_json(const struct report_data *data, const struct report_domain *domain)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "number", domain->number);

	if (domain->name)
		err = err ?: json_set_text(object, "name", strpool_get(&data->strings, domain->name));
	return json_unless(err, object);
}

static void write_lists(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	size_t domain_nr = layout->limits.key_columns & REPORT_KEY_DOMAIN ? data->domain_nr : 0;

	packed_json__text(json, ",");
	packed_json__begin(json, "births_ns");
	for (size_t i = 0; i < data->boundary_ns_nr; i++)
		packed_json__uint(json, data->boundary_ns[i]);
	packed_json__end(json);
	packed_json__text(json, ",\"domains\":[");
	for (size_t i = 0; i < domain_nr; i++) {
		packed_json__text(json, i ? "," : "");
		packed_json__value(json, domain_json(data, &data->domain[i]), 0);
	}
	packed_json__text(json, "]");
}

/* Files are told by the numbers of their names here. */
static void write_sources(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	const char *file;
	json_t *lines, *sources = json_object();
	int err = sources ? 0 : -ENOMEM;
	uint32_t id;
	char number[16];

	json_object_foreach(data->sources, file, lines) {
		id = strtoul(file, NULL, 10);
		if (layout->string[id] == IDMAP_NONE)
			continue;
		snprintf(number, sizeof(number), "%u", layout->string[id]);
		err = err ?: json_set(sources, number, json_incref(lines));
	}
	packed_json__text(json, ",\"sources\":");
	packed_json__value(json, json_unless(err, sources), 0);
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

/* Names of the columns that the data have and the file has not. */
static json_t *dropped_columns(const struct report_data *data, const struct report_layout *layout)
{
	unsigned int dropped = data->key_columns_wanted & ~(data->key_columns & layout->limits.key_columns);
	json_t *names = json_array();
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(key_columns) && !err; i++)
		if (dropped & key_columns[i].column && json_array_append_new(names, json_string(key_columns[i].name)))
			err = -ENOMEM;
	return json_unless(err, names);
}

static json_t *merged_head(const struct report_data *data, const struct report_layout *layout)
{
	json_t *merged = json_object();
	int err = json_set_uint(merged, "tracebacks", layout->merged_nr) ?:
		  json_set_uint(merged, "of", layout->merged_of) ?:
		  json_set(merged, "share", json_real(layout->limits.share)) ?:
		  json_set(merged, "dropped_keys", dropped_columns(data, layout));

	if (layout->small_site_nr)
		err = err ?: json_set_uint(merged, "sites", layout->small_site_nr) ?:
		      json_set_uint(merged, "sites_of", layout->site_of) ?:
		      json_set(merged, "site_share", json_real(layout->small_site_share));
	return json_unless(err, merged);
}

static void write_head(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	json_t *head = json_copy(data->head);
	int err = 0;

	if (layout->merged_nr || layout->small_site_nr ||
	    data->key_columns_wanted & ~(data->key_columns & layout->limits.key_columns))
		err = json_set(head, "merged", merged_head(data, layout));
	packed_json__value(json, json_unless(err, head), JSON_EMBED);
}

/* Writes all that docs/report-format.md has. Returns 0 or -ENOMEM; also see packed_json__finish(). */
static int report_write_data(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	bool has_keys;
	int err;

	packed_json__text(json, "{");
	write_head(json, data, layout);
	write_strings(json, data, layout);
	write_frames(json, data, layout);
	write_nodes(json, data, layout);
	write_tracebacks(json, data, layout);
	write_lists(json, data, layout);
	has_keys = write_keys(json, data, layout);
	write_rows(json, layout, has_keys);
	report_write_leaks(json, data, layout);
	err = report_write_columns(json, data, layout);
	if (data->sources)
		write_sources(json, data, layout);
	packed_json__text(json, "}");
	return err;
}

/* The page has 16 bytes for each traceback and snapshot. */
#define PAGE_CELLS_MAX (4 << 20)

/*
 * Merging what is hardly there comes before losing a filter, and losing filters before losing sites. The last step is
 * taken even if it does not fit: names may be of any length.
 */
static const struct layout_limits steps[] = {
	{ 0, REPORT_KEY_ALL },
	{ 1e-6, REPORT_KEY_ALL },
	{ 1e-5, REPORT_KEY_ALL },
	{ 1e-5, REPORT_KEY_ALL & ~REPORT_KEY_BIRTH },
	{ 1e-5, REPORT_KEY_ALL & ~(REPORT_KEY_BIRTH | REPORT_KEY_SIZE_CLASS) },
	{ 1e-4, REPORT_KEY_ALL & ~(REPORT_KEY_BIRTH | REPORT_KEY_SIZE_CLASS) },
	{ 1e-3, REPORT_KEY_ALL & ~(REPORT_KEY_BIRTH | REPORT_KEY_SIZE_CLASS) },
	{ 1e-3, REPORT_KEY_DOMAIN | REPORT_KEY_PROCESS },
	{ 1e-3, REPORT_KEY_DOMAIN },
	{ 1e-2, REPORT_KEY_DOMAIN },
	{ 1e-2, REPORT_KEY_DOMAIN, 50000 },
	{ 1e-2, REPORT_KEY_DOMAIN, 20000 },
	{ 1e-2, REPORT_KEY_DOMAIN, 10000 },
	{ 1e-2, 0, 10000 },
	{ 1e-2, 0, 3000 },
	{ 1e-2, 0, 1000 },
	{ 1e-2, 0, 100 },
};

/* Packed nodes and rows take at least this: without writing them, it is known that so many do not fit. */
static size_t least_bytes(const struct report_layout *layout)
{
	return (uint64_t)layout->node_nr * 4 / 10 + layout->row_nr;
}

static bool is_layout_too_much(const struct report_layout *layout, const struct report_data *data, size_t bytes_max)
{
	return (uint64_t)layout->traceback_nr * data->column_nr > PAGE_CELLS_MAX || least_bytes(layout) > bytes_max;
}

/* -EFBIG: it does not fit, and another step is left. */
static int pack_step(struct report_data *data, const struct peak_shares *shares, size_t step, struct packed_report *ret)
{
	bool is_last = step + 1 == ARRAY_SIZE(steps);
	struct report_layout layout = {};
	int err = layout_make(&layout, data, shares, &steps[step]);

	if (!err && !is_last && is_layout_too_much(&layout, data, ret->bytes_max))
		err = -EFBIG;
	if (!err) {
		ret->json = packed_json__new();
		err = ret->json ? report_write_data(ret->json, data, &layout) : -ENOMEM;
	}
	err = err ?: packed_json__finish(ret->json, &ret->bytes, &ret->bytes_nr);
	ret->merged_nr = layout.merged_nr;
	ret->merged_of = layout.merged_of;
	ret->small_site_nr = layout.small_site_nr;
	ret->site_of = layout.site_of;
	layout_release(&layout);
	return err || is_last || ret->bytes_nr <= ret->bytes_max ? err : -EFBIG;
}

int pack_report(struct report_data *data, size_t bytes_max, struct packed_report *ret)
{
	struct peak_shares shares;
	int err = peak_shares_find(data, &shares) ?: -EFBIG;

	*ret = (struct packed_report){};
	for (size_t i = 0; i < ARRAY_SIZE(steps) && err == -EFBIG; i++) {
		packed_report_release(ret);
		ret->bytes_max = bytes_max;
		err = pack_step(data, &shares, i, ret);
	}
	peak_shares_release(&shares);
	return err;
}

void packed_report_release(struct packed_report *packed)
{
	packed_json__free(packed->json);
	*packed = (struct packed_report){};
}
