// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/add_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "engine/key_type.h"
#include "engine/trace_cost.h"
#include "report/adding.h"
#include "report/report_head.h"

/* The key of the trace before, which is often that of the next one. IDMAP_NONE: there was none. */
struct recent_key {
	struct report_key key;
	uint32_t id;
};

/* ---- keys ------------------------------------------------------------------------------------------------------ */

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
	return adding_find_domain(adding, tables->trace_domain ? tables->trace_domain[at] : 0, &ret->domain);
}

/* Traces come in runs of equal keys. */
static int find_report_key(struct adding *adding, struct recent_key *recent, uint64_t at, uint32_t *ret_id)
{
	struct report_key key;
	int err = read_report_key(adding, at, &key);

	if (!err && (recent->id == IDMAP_NONE || memcmp(&key, &recent->key, sizeof(key)))) {
		err = report_key_add(adding->data, &key, &recent->id);
		recent->key = key;
	}
	*ret_id = recent->id;
	return err;
}

/* ---- blocks ------------------------------------------------------------------------------------------------ */

static int add_report_block(struct adding *adding, uint32_t row, uint64_t at, struct reason *why)
{
	uint64_t size = adding->tables->trace_size[at];
	const struct cost cost = { (int64_t)size, 1 };
	struct sums sums = {}, total = {};

	if (size > INT64_MAX)
		return cost_too_much(why);
	if (!adding->tables->trace_weight)
		return adding_add(adding, row, &cost, NULL, why);
	sums_add_block(&sums, &total, size, adding->tables->trace_weight[at], 0);
	return adding_add(adding, row, &cost, &sums.all, why);
}

static int add_blocks(struct adding *adding, struct reason *why)
{
	struct progress progress = progress_begin("adding", "blocks", adding->tables->trace_nr);
	struct recent_key recent = { .id = IDMAP_NONE };
	uint32_t traceback = 0, key = 0, row = 0;
	int err = 0;

	adding->is_sampled = adding->tables->trace_weight;
	for (uint64_t at = 0; at < adding->tables->trace_nr && !err; at++) {
		progress_show_row(&progress, at);
		if (!selector_takes(&adding->selector, at))
			continue;
		err = adding_find_traceback(adding, adding->tables->trace_traceback[at], &traceback) ?:
		      find_report_key(adding, &recent, at, &key) ?:
		      report_row_add(adding->data, traceback, key, &row) ?: add_report_block(adding, row, at, why);
	}
	progress_end(&progress);
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
		err = adding_find_traceback(adding, i, &traceback);
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

/* Sums since the recording began start again then. */
static int mark_other_recording(const struct report_data *data, json_t *head)
{
	static const char key[] = "recording_start_monotonic_ns";
	const json_t *now = json_object_get(head, key), *before;

	if (data->column_nr < 2)
		return 0;
	before = json_object_get(data->column[data->column_nr - 2].head, key);
	if (!now || !before || json_equal(now, before))
		return 0;
	return json_object_set_new(head, "is_other_recording", json_integer(1)) ? -ENOMEM : 0;
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
	err = adding_put_changes(adding, column) ?: put_churn(adding, column);
	data->cell_nr += column->cell_nr + column->churn_nr;
	if (!err && data->cell_nr > cell_max)
		err = reason_set(why, -EFBIG, "too many tracebacks for a report: more than %zu changes", cell_max);
	if (!err)
		err = report_snapshot_head(input->snapshot, input->name, input->options, &column->head);
	return err ?: mark_other_recording(data, column->head);
}

int report_add_snapshot(struct report_data *data, const struct report_input *input, size_t cell_max, struct reason *why)
{
	struct adding adding;
	int err = adding_init(&adding, data, input->snapshot, input->options, input->gap_ns, why);

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
