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

#define SHOWN_COLUMN(kind, name, of, member) \
	packed_json__column(json, kind, name, i, replay->touched_nr, replay->of[replay->touched[i]].member)

static void write_cells(struct packed_json *json, struct replay *replay)
{
	packed_json__text(json, ",");
	packed_json__steps(json, "row", i, replay->touched_nr, replay->touched[i]);
	SHOWN_COLUMN(uint, "size", row, size);
	SHOWN_COLUMN(uint, "count", row, count);
	if (!replay->data->is_sampled)
		return;
	SHOWN_COLUMN(real, "size_beyond", row, spread.size.beyond);
	SHOWN_COLUMN(real, "size_variance", row, spread.size.variance);
	SHOWN_COLUMN(real, "size_covariance", row, spread.size.covariance);
	SHOWN_COLUMN(real, "count_beyond", row, spread.count.beyond);
	SHOWN_COLUMN(real, "count_variance", row, spread.count.variance);
	SHOWN_COLUMN(real, "count_covariance", row, spread.count.covariance);
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
	packed_json__text(json, ",\"churn\":{");
	packed_json__steps(json, "traceback", i, replay->touched_nr, replay->touched[i]);
	SHOWN_COLUMN(uint, "allocations", traceback, now.allocations);
	SHOWN_COLUMN(uint, "allocated_bytes", traceback, now.allocated_bytes);
	SHOWN_COLUMN(uint, "temporary", traceback, now.temporary);
	SHOWN_COLUMN(uint, "temporary_bytes", traceback, now.temporary_bytes);
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

#define FRAME_COLUMN(kind, name, value) \
	packed_json__column(json, kind, name, i, layout->frame_nr, ({ \
		const struct report_frame *frame = &data->frame[layout->frame_at[i]]; \
		value; \
	}))

/* Without a line the file is the code's file, the object. Offsets are unsigned: hostile files have any number. */
static void write_frames(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"frames\":{");
	FRAME_COLUMN(int, "function", string_number(layout, frame->function));
	FRAME_COLUMN(int, "file", frame->line || frame->file != frame->object ? string_number(layout, frame->file) : -1);
	FRAME_COLUMN(uint, "line", frame->line);
	FRAME_COLUMN(int, "object", string_number(layout, frame->object));
	FRAME_COLUMN(uint, "offset", frame->offset);
	FRAME_COLUMN(uint, "library", frame->is_library);
	FRAME_COLUMN(uint, "kind", frame->kind);
	packed_json__text(json, "}");
}

static void write_nodes(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	packed_json__text(json, ",\"nodes\":{");
	packed_json__column(json, uint, "up", i, layout->node_nr,
			    (uint32_t)i - layout->node[data->node[layout->node_at[i]].parent]);
	packed_json__column(json, int, "frame", i, layout->node_nr,
			    i ? (int64_t)layout->frame[data->node[layout->node_at[i]].frame] : -1);
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
	packed_json__text(json, ",\"tracebacks\":{");
	packed_json__steps(json, "node", i, layout->traceback_nr,
			   layout->node[data->traceback[layout->traceback_at[i]].node]);
	packed_json__column(json, uint, "passed", i, layout->traceback_nr,
			    frames_passed(data, &data->traceback[layout->traceback_at[i]]));
	packed_json__column(json, uint, "cut", i, layout->traceback_nr,
			    data->traceback[layout->traceback_at[i]].is_cut);
	packed_json__text(json, "}");
}

/* ---- keys and rows ---------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum report_key_column column;
} key_columns[] = {
	{ "thread", REPORT_KEY_THREAD }, { "domain", REPORT_KEY_DOMAIN }, { "size_class", REPORT_KEY_SIZE_CLASS },
	{ "birth", REPORT_KEY_BIRTH },	 { "process", REPORT_KEY_PROCESS },
};

/* The key's value for a column; for births this is the number of boundaries before the birth. */
static uint64_t key_value(const struct report_data *data, const struct report_key *key, enum report_key_column column)
{
	switch (column) {
	case REPORT_KEY_THREAD:
		return key->thread;
	case REPORT_KEY_DOMAIN:
		return key->domain;
	case REPORT_KEY_SIZE_CLASS:
		return key->size_class;
	case REPORT_KEY_PROCESS:
		return key->process;
	default:
		return array_first(data->boundary_ns_nr, i, data->boundary_ns[i] > key->birth_after_ns);
	}
}

/* A column of one value tells nothing apart. */
static bool is_key_column_needed(const struct report_data *data, const struct report_layout *layout, size_t column)
{
	if (!(layout->limits.key_columns & data->key_columns & key_columns[column].column))
		return false;
	for (uint32_t i = 1; i < layout->key_nr; i++)
		if (key_value(data, &layout->key_at[i], key_columns[column].column) !=
		    key_value(data, &layout->key_at[0], key_columns[column].column))
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
		packed_json__column(json, uint, key_columns[column].name, i, layout->key_nr,
				    key_value(data, &layout->key_at[i], key_columns[column].column));
		written++;
	}
	packed_json__text(json, "}");
	return written;
}

static void write_rows(struct packed_json *json, const struct report_layout *layout, bool has_keys)
{
	packed_json__text(json, ",\"rows\":{");
	packed_json__steps(json, "traceback", i, layout->row_nr, layout->row_at[i].traceback);
	if (has_keys)
		packed_json__column(json, uint, "key", i, layout->row_nr, layout->row_at[i].key);
	packed_json__text(json, "}");
}

static void write_lists(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	size_t domain_nr = layout->limits.key_columns & REPORT_KEY_DOMAIN ? data->domain_nr : 0;
	struct emitter out = emit_to(NULL, true);
	json_t *domains;

	packed_json__text(json, ",");
	packed_json__column(json, uint, "births_ns", i, data->boundary_ns_nr, data->boundary_ns[i]);
	emit_list(&out, "domains");
	for (size_t i = 0; i < domain_nr; i++) {
		const struct report_domain *domain = &data->domain[i];

		emit_object(&out, NULL);
		emit_uint(&out, "number", domain->number);
		emit_text(&out, "name", domain->name ? strpool_get(&data->strings, domain->name) : NULL);
		emit_end(&out);
	}
	emit_end(&out);
	emit_value_of(&out, &domains);
	packed_json__text(json, ",");
	packed_json__value(json, domains, JSON_EMBED);
}

/* A file's key here is the number of its name. */
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

/* "merged", with the names of the columns that the data have and the file has not. */
static json_t *merged_head(const struct report_layout *layout, unsigned int dropped)
{
	struct emitter out = emit_to(NULL, true);
	json_t *merged;

	emit_uint(&out, "tracebacks", layout->merged_nr);
	emit_uint(&out, "of", layout->merged_of);
	emit_real(&out, "share", layout->limits.share);
	emit_list(&out, "dropped_keys");
	for (size_t i = 0; i < ARRAY_SIZE(key_columns); i++)
		if (dropped & key_columns[i].column)
			emit_text(&out, NULL, key_columns[i].name);
	emit_end(&out);
	if (layout->small_site_nr) {
		emit_uint(&out, "sites", layout->small_site_nr);
		emit_uint(&out, "sites_of", layout->site_of);
		emit_real(&out, "site_share", layout->small_site_share);
	}
	emit_value_of(&out, &merged);
	return merged;
}

static void write_head(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
{
	unsigned int dropped = data->key_columns_wanted & ~(data->key_columns & layout->limits.key_columns);
	json_t *head = json_whole_copy(data->head);
	int err = 0;

	if (layout->merged_nr || layout->small_site_nr || dropped)
		err = json_set(head, "merged", merged_head(layout, dropped));
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
