// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/write_columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "render/json_parts.h"

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

int report_write_columns(struct packed_json *json, const struct report_data *data, const struct report_layout *layout)
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
