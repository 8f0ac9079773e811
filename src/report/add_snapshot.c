// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/add_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "engine/frame.h"
#include "engine/key_type.h"
#include "engine/selector.h"
#include "engine/trace_source.h"
#include "report/report_head.h"
#include "snapshot.h"

/* A snapshot while it is added. Arrays by ids of the snapshot have IDMAP_NONE for what was not needed yet. */
struct adding {
	struct report_data *data;
	const struct snapshot_tables *tables;
	struct source source;
	struct selector selector;
	uint32_t *frame_id, *traceback_id;
	uint32_t *path; /* frames of one traceback */
	size_t path_alloc;
	struct report_cell *now; /* by row */
	size_t now_nr, now_alloc;
	struct sums *sums; /* by row, if the snapshot is sampled */
	size_t sums_nr, sums_alloc;
	struct sums total;
	struct report_key key; /* of the trace before, */
	uint32_t key_id;       /* and its id; IDMAP_NONE: there was none */
	int64_t size;	       /* all blocks so far */
};

static uint32_t *make_ids(uint32_t nr)
{
	uint32_t *id = malloc((nr ?: 1) * sizeof(*id));

	if (id)
		memset(id, 0xff, (nr ?: 1) * sizeof(*id));
	return id;
}

static int adding_init(struct adding *adding, struct report_data *data, const struct report_input *input,
		       struct reason *why)
{
	int err;

	*adding = (struct adding){ .data = data, .tables = snapshot__tables(input->snapshot), .key_id = IDMAP_NONE };
	err = source_init(&adding->source, input->snapshot, input->options);
	if (input->gap_ns)
		adding->source.gap_ns = input->gap_ns;
	if (!err)
		err = selector_init(&adding->selector, &adding->source, why);
	if (err)
		return err;
	adding->frame_id = make_ids(adding->tables->frame_nr);
	adding->traceback_id = make_ids(adding->tables->traceback_nr);
	return adding->frame_id && adding->traceback_id ? 0 : -ENOMEM;
}

static void adding_release(struct adding *adding)
{
	selector_release(&adding->selector);
	source_release(&adding->source);
	free(adding->frame_id);
	free(adding->traceback_id);
	free(adding->path);
	free(adding->now);
	free(adding->sums);
}

/* ---- tracebacks -------------------------------------------------------------------------------------------- */

static int add_name(struct report_data *data, const char *text, uint32_t *ret_id)
{
	*ret_id = 0;
	return text ? report_string_add(data, text, ret_id) : 0;
}

static enum report_frame_kind kind_of_frame(const struct snapshot_tables *tables, uint32_t frame)
{
	if (!frame)
		return REPORT_UNKNOWN;
	if (tables->frame[frame].flags & SNAP_FRAME_SKIPPED)
		return REPORT_MISSING;
	return tables->frame[frame].flags & SNAP_FRAME_INLINE ? REPORT_INLINED : REPORT_CALL;
}

static int find_report_frame(struct adding *adding, uint32_t frame, uint32_t *ret_id)
{
	struct report_frame row = { .kind = kind_of_frame(adding->tables, frame) };
	struct report_data *data = adding->data;
	struct frame_view view;
	int err;

	if (frame < adding->tables->frame_nr && adding->frame_id[frame] != IDMAP_NONE) {
		*ret_id = adding->frame_id[frame];
		return 0;
	}
	view = frame_read(adding->source.snapshot, frame, KEY_TRACEBACK);
	row.line = view.lineno;
	row.offset = view.offset;
	row.is_library = frame && source_role(&adding->source, frame) >= ROLE_START;
	err = add_name(data, view.function, &row.function) ?: add_name(data, view.filename, &row.file) ?:
	      add_name(data, view.object, &row.object) ?: report_frame_add(data, &row, ret_id);
	if (!err && frame < adding->tables->frame_nr)
		adding->frame_id[frame] = *ret_id;
	return err;
}

/* Whether older callers are missing. */
static bool is_cut_traceback(const struct snap_traceback *row)
{
	uint32_t end = SNAP_TRACEBACK_END_OF(row->flags);

	return row->nframe && (row->flags & (SNAP_TRACEBACK_LIMITED | SNAP_TRACEBACK_BROKEN) ||
			       row->total_nframe > row->nframe || (end != SNAP_END_UNKNOWN && end != SNAP_END_ROOT));
}

/* frame: most recent first. The last own_nr of them are the own frame and its callers. */
static int add_traceback_frames(struct adding *adding, const uint32_t *frame, uint32_t nframe, uint32_t own_nr,
				uint32_t *ret_id)
{
	int err = array_reserve(&adding->path, &adding->path_alloc, nframe);

	for (uint32_t i = 0; i < nframe && !err; i++)
		err = find_report_frame(adding, frame[nframe - 1 - i], &adding->path[i]);
	return err ?: report_path_add(adding->data, adding->path, nframe, own_nr - 1, ret_id);
}

static int find_report_traceback(struct adding *adding, uint32_t traceback, uint32_t *ret_id)
{
	static const uint32_t none;
	const struct snap_traceback *row = &adding->tables->traceback[traceback];
	const uint32_t *frame = row->nframe ? &adding->tables->traceback_frame[row->first] : &none;
	uint32_t *memo = &adding->traceback_id[traceback];
	int err;

	if (*memo == IDMAP_NONE) {
		struct frame_span own = source_frames(&adding->source, traceback);

		err = add_traceback_frames(adding, frame, row->nframe ?: 1, own.nframe, memo);
		if (err)
			return err;
		adding->data->traceback[*memo].is_cut |= is_cut_traceback(row);
	}
	*ret_id = *memo;
	return 0;
}

/* ---- keys ------------------------------------------------------------------------------------------------------ */

static int find_domain(struct adding *adding, uint32_t number, uint32_t *ret_at)
{
	struct report_data *data = adding->data;
	int err = 0;

	for (*ret_at = 0; *ret_at < data->domain_nr; ++*ret_at)
		if (data->domain[*ret_at].number == number)
			break;
	if (*ret_at == data->domain_nr)
		err = report_domain_add(data, number, snapshot__domain_name(adding->source.snapshot, number));
	return err;
}

/* Class n has the sizes that need exactly n bits, as in --group-by size-class. */
static uint32_t class_of_size(uint64_t size)
{
	return size ? 64 - __builtin_clzll(size) : 0;
}

static int read_report_key(struct adding *adding, uint64_t at, struct report_key *ret)
{
	const struct snapshot_tables *tables = adding->tables;
	unsigned int columns = adding->data->key_columns;

	*ret = (struct report_key){};
	if (columns & REPORT_KEY_THREAD && tables->trace_thread)
		ret->thread = tables->trace_thread[at];
	if (columns & REPORT_KEY_SIZE_CLASS)
		ret->size_class = class_of_size(tables->trace_size[at]);
	if (columns & REPORT_KEY_BIRTH && tables->trace_birth_ns)
		ret->birth_after_ns = report_boundary_before(adding->data, tables->trace_birth_ns[at]);
	if (!(columns & REPORT_KEY_DOMAIN))
		return 0;
	return find_domain(adding, tables->trace_domain ? tables->trace_domain[at] : 0, &ret->domain);
}

/* Traces come in runs of equal keys. */
static int find_report_key(struct adding *adding, uint64_t at, uint32_t *ret_id)
{
	struct report_key key;
	int err = read_report_key(adding, at, &key);

	if (!err && (adding->key_id == IDMAP_NONE || memcmp(&key, &adding->key, sizeof(key)))) {
		err = report_key_add(adding->data, &key, &adding->key_id);
		adding->key = key;
	}
	*ret_id = adding->key_id;
	return err;
}

/* ---- blocks ------------------------------------------------------------------------------------------------ */

static int reach_row(struct adding *adding, uint32_t row)
{
	int err = 0;

	for (uint32_t at = adding->now_nr; !err && at <= row; at++)
		err = array_push(adding, now, ((struct report_cell){ .row = at }));
	while (!err && adding->tables->trace_weight && adding->sums_nr <= row)
		err = array_push(adding, sums, (struct sums){});
	return err;
}

static int add_to_row(struct adding *adding, uint32_t row, uint64_t at, struct reason *why)
{
	uint64_t size = adding->tables->trace_size[at];

	if (__builtin_add_overflow(adding->size, size, &adding->size))
		return reason_set(why, -ERANGE, "the sizes add up to more than 2^63 - 1 bytes");
	adding->now[row].size += size;
	adding->now[row].count++;
	if (adding->tables->trace_weight)
		sums_add_block(&adding->sums[row], &adding->total, size, adding->tables->trace_weight[at], 0);
	return 0;
}

static int add_blocks(struct adding *adding, struct reason *why)
{
	uint32_t traceback = 0, key = 0, row = 0;
	int err = 0;

	for (uint64_t at = 0; at < adding->tables->trace_nr && !err; at++) {
		if (!selector_takes(&adding->selector, at))
			continue;
		err = find_report_traceback(adding, adding->tables->trace_traceback[at], &traceback) ?:
		      find_report_key(adding, at, &key) ?: report_row_add(adding->data, traceback, key, &row) ?:
		      reach_row(adding, row) ?: add_to_row(adding, row, at, why);
	}
	return err;
}

/* ---- what changed ------------------------------------------------------------------------------------------ */

static bool is_same_spread(const struct spread *a, const struct spread *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static int put_cell(struct report_data *data, struct report_column *column, const struct report_cell *cell,
		    const struct spread *spread)
{
	int err = array_push(column, cell, *cell);

	data->last[cell->row] = *cell;
	if (!err && data->is_sampled) {
		err = array_push(column, spread, *spread);
		data->last_spread[cell->row] = *spread;
	}
	return err;
}

/* The columns so far had no spread: their blocks were not sampled. */
static int become_sampled(struct report_data *data)
{
	int err = 0;

	data->is_sampled = true;
	for (size_t i = 0; i < data->column_nr && !err; i++) {
		struct report_column *column = &data->column[i];

		while (!err && column->spread_nr < column->cell_nr)
			err = array_push(column, spread, (struct spread){});
	}
	return err;
}

static int reach_last(struct report_data *data)
{
	int err = 0;

	for (uint32_t at = data->last_nr; !err && at < data->row_nr; at++)
		err = array_push(data, last, ((struct report_cell){ .row = at }));
	while (!err && data->is_sampled && data->last_spread_nr < data->row_nr)
		err = array_push(data, last_spread, (struct spread){});
	return err;
}

static int put_changes(struct adding *adding, struct report_column *column)
{
	static const struct spread exact;
	struct report_data *data = adding->data;
	int err = adding->tables->trace_weight && !data->is_sampled ? become_sampled(data) : 0;

	err = err ?: reach_last(data);
	for (size_t row = 0; row < data->row_nr && !err; row++) {
		const struct report_cell none = { .row = row };
		const struct report_cell *now = row < adding->now_nr ? &adding->now[row] : &none;
		const struct spread *spread = row < adding->sums_nr ? &adding->sums[row].all : &exact;

		if (now->size != data->last[row].size || now->count != data->last[row].count ||
		    (data->is_sampled && !is_same_spread(spread, &data->last_spread[row])))
			err = put_cell(data, column, now, spread);
	}
	return err;
}

/* ---- churn --------------------------------------------------------------------------------------------------- */

static int reach_churn(struct report_data *data)
{
	int err = 0;

	for (uint32_t at = data->last_churn_nr; !err && at < data->traceback_nr; at++)
		err = array_push(data, last_churn, ((struct report_churn){ .traceback = at }));
	return err;
}

/* Two tracebacks of a snapshot may be one here: they differ in what their frames do not show. */
static int sum_churn(struct adding *adding, struct report_churn *sum, size_t sum_nr)
{
	uint32_t traceback;
	int err = 0;

	for (uint32_t i = 0; i < adding->tables->traceback_nr && !err; i++) {
		const struct snap_churn *churn = &adding->tables->churn[i];

		if (!churn->allocations || !selector_takes_traceback(&adding->selector, i))
			continue;
		err = find_report_traceback(adding, i, &traceback);
		if (err || traceback >= sum_nr)
			continue;
		sum[traceback].allocations += churn->allocations;
		sum[traceback].allocated_bytes += churn->allocated_bytes;
		sum[traceback].temporary += churn->temporary;
		sum[traceback].temporary_bytes += churn->temporary_bytes;
	}
	return err;
}

static int put_churn(struct adding *adding, struct report_column *column)
{
	struct report_data *data = adding->data;
	struct report_churn *sum;
	int err;

	if (!adding->tables->churn || adding->selector.is_per_trace)
		return 0;
	column->has_churn = true;
	err = sum_churn(adding, NULL, 0) ?: reach_churn(data);
	sum = err ? NULL : calloc(data->traceback_nr ?: 1, sizeof(*sum));
	if (!sum)
		return err ?: -ENOMEM;
	err = sum_churn(adding, sum, data->traceback_nr);
	for (size_t i = 0; i < data->traceback_nr && !err; i++) {
		sum[i].traceback = i;
		if (!memcmp(&sum[i], &data->last_churn[i], sizeof(sum[i])))
			continue;
		err = array_push(column, churn, sum[i]);
		data->last_churn[i] = sum[i];
	}
	free(sum);
	return err;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static int add_column(struct adding *adding, const struct report_input *input, size_t cell_max, struct reason *why)
{
	struct report_data *data = adding->data;
	struct report_column *column;
	int err = array_push(data, column, (struct report_column){});

	if (err)
		return err;
	column = &data->column[data->column_nr - 1];
	err = put_changes(adding, column) ?: put_churn(adding, column);
	data->cell_nr += column->cell_nr + column->churn_nr;
	if (!err && data->cell_nr > cell_max)
		err = reason_set(why, -EFBIG, "more than %zu changes", cell_max);
	if (!err)
		err = report_snapshot_head(input->snapshot, input->name, input->options, &column->head);
	return err;
}

int report_add_snapshot(struct report_data *data, const struct report_input *input, size_t cell_max, struct reason *why)
{
	struct adding adding;
	int err = adding_init(&adding, data, input, why);

	if (!err)
		err = report_boundary_add(data, snapshot__metadata_u64(input->snapshot, "monotonic_ns", 0));
	err = err ?: add_blocks(&adding, why) ?: add_column(&adding, input, cell_max, why);
	adding_release(&adding);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

int report_add_age_boundaries(struct report_data *data, uint64_t now_ns)
{
	int err = 0;

	for (size_t class = 0; age_class_limit_ns(class) && !err; class++)
		if (age_class_limit_ns(class) < now_ns)
			err = report_boundary_add(data, now_ns - age_class_limit_ns(class));
	return err;
}
