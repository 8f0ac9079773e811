// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/adding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "engine/frame.h"
#include "engine/trace_cost.h"
#include "fleet/row_codec.h"
#include "render/json_parts.h"

/* ---- domains ---------------------------------------------------------------------------------------------------- */

/* The number of the domain that a row of the metadata names: "domain.7". */
static bool parse_domain_row(const struct snapshot *snapshot, uint32_t row, uint32_t *ret_number)
{
	const char *key = snapshot__string(snapshot, snapshot__tables(snapshot)->metadata[row].key);
	uint64_t number;

	if (strncmp(key, "domain.", 7) || parse_count(key + 7, 0, UINT32_MAX, &number))
		return false;
	*ret_number = number;
	return true;
}

static bool is_name_of_domain(uint32_t row, const void *key, const void *snapshot)
{
	uint32_t number;

	return parse_domain_row(snapshot, row, &number) && number == *(const uint32_t *)key;
}

static uint32_t find_domain_name(const struct adding *adding, uint32_t number)
{
	return idmap_find(&adding->domain_names, hash_bytes(&number, sizeof(number), 0), is_name_of_domain, &number,
			  adding->source.snapshot);
}

/* A forged snapshot may have a million domains, and names for thousands: each is found at once. */
static int index_domain_names(struct adding *adding)
{
	uint32_t number;
	int err = 0;

	for (uint32_t i = 0; i < adding->tables->metadata_nr && !err; i++)
		if (parse_domain_row(adding->source.snapshot, i, &number) && find_domain_name(adding, number) == IDMAP_NONE)
			err = idmap_add(&adding->domain_names, hash_bytes(&number, sizeof(number), 0), i);
	return err;
}

int adding_find_domain(struct adding *adding, uint32_t number, uint32_t *ret_at)
{
	const struct snapshot *snapshot = adding->source.snapshot;
	uint32_t row;

	*ret_at = report_domain_find(adding->data, number);
	if (*ret_at != IDMAP_NONE)
		return 0;
	row = find_domain_name(adding, number);
	return report_domain_add(adding->data, number, row == IDMAP_NONE ? NULL :
				 snapshot__string(snapshot, adding->tables->metadata[row].value), ret_at);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

int adding_init(struct adding *adding, struct report_data *data, const struct snapshot *snapshot,
		const struct engine_options *options, uint64_t gap_ns, struct reason *why)
{
	int err;

	*adding = (struct adding){ .data = data, .tables = snapshot__tables(snapshot) };
	err = source_init(&adding->source, snapshot, options);
	if (gap_ns)
		adding->source.gap_ns = gap_ns;
	if (!err)
		err = selector_init(&adding->selector, &adding->source, why);
	if (err)
		return err;
	adding->frame_id = report_make_ids(adding->tables->frame_nr);
	adding->traceback_id = report_make_ids(adding->tables->traceback_nr);
	return adding->frame_id && adding->traceback_id ? index_domain_names(adding) : -ENOMEM;
}

void adding_release(struct adding *adding)
{
	selector_release(&adding->selector);
	source_release(&adding->source);
	free(adding->frame_id);
	free(adding->traceback_id);
	free(adding->path);
	free(adding->now);
	free(adding->spread);
	idmap_release(&adding->domain_names);
}

/* ---- tracebacks -------------------------------------------------------------------------------------------- */

static int add_frame_name(struct report_data *data, const char *text, uint32_t *ret_id)
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
	const uint32_t *key_frame = adding->source.options->key_frame;
	struct report_frame row = { .kind = kind_of_frame(adding->tables, frame) };
	struct report_data *data = adding->data;
	struct frame_view view;
	int err;

	if (frame < adding->tables->frame_nr && adding->frame_id[frame] != IDMAP_NONE) {
		*ret_id = adding->frame_id[frame];
		return 0;
	}
	view = frame_read(adding->source.snapshot, key_frame ? key_frame[frame] : frame, KEY_TRACEBACK);
	row.line = view.lineno;
	row.offset = view.offset;
	row.is_library = frame && source_role(&adding->source, frame) >= ROLE_START;
	err = add_frame_name(data, view.function, &row.function) ?: add_frame_name(data, view.filename, &row.file) ?:
	      add_frame_name(data, view.object, &row.object) ?: report_frame_add(data, &row, ret_id);
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

int adding_find_traceback(struct adding *adding, uint32_t traceback, uint32_t *ret_id)
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

/* ---- the blocks of a row ----------------------------------------------------------------------------------- */

static int add_spread(struct adding *adding, uint32_t row, const struct spread *spread)
{
	int err = array_fill(adding, spread, row + 1ull, at, (struct spread){});

	adding->is_sampled = true;
	if (!err)
		spread_add(&adding->spread[row], spread);
	return err;
}

int adding_add(struct adding *adding, uint32_t row, const struct cost *cost, const struct spread *spread,
	       struct reason *why)
{
	int err = array_fill(adding, now, row + 1ull, at, ((struct report_cell){ .row = at }));

	if (err)
		return err;
	if (__builtin_add_overflow(adding->size, cost->size, &adding->size) ||
	    __builtin_add_overflow(adding->count, cost->count, &adding->count))
		return cost_too_much(why);
	adding->now[row].size += cost->size;
	adding->now[row].count += cost->count;
	return spread ? add_spread(adding, row, spread) : 0;
}

/* ---- what changed ------------------------------------------------------------------------------------------ */

static int put_changed_cell(struct report_data *data, struct report_column *column, const struct report_cell *cell,
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
	for (size_t i = 0; i < data->column_nr && !err; i++)
		err = array_fill(&data->column[i], spread, data->column[i].cell_nr, at, (struct spread){});
	return err;
}

int adding_put_changes(struct adding *adding, struct report_column *column)
{
	static const struct spread exact;
	struct report_data *data = adding->data;
	int err = adding->is_sampled && !data->is_sampled ? become_sampled(data) : 0;

	err = err ?: array_fill(data, last, data->row_nr, at, ((struct report_cell){ .row = at })) ?:
	      array_fill(data, last_spread, data->is_sampled ? data->row_nr : 0, at, (struct spread){});
	for (size_t row = 0; row < data->row_nr && !err; row++) {
		const struct report_cell none = { .row = row };
		const struct report_cell *now = row < adding->now_nr ? &adding->now[row] : &none;
		const struct spread *spread = row < adding->spread_nr ? &adding->spread[row] : &exact;

		if (now->size != data->last[row].size || now->count != data->last[row].count ||
		    (data->is_sampled && memcmp(spread, &data->last_spread[row], sizeof(*spread))))
			err = put_changed_cell(data, column, now, spread);
	}
	return err;
}

struct adding_cohort {
	struct adding adding;
	const struct cohort_input *input;
	struct fleet_rows rows;
	uint32_t *order; /* of the rows of one snapshot */
	size_t order_nr, order_alloc;
	uint32_t process; /* of the snapshot: its number in the report */
};

/* ---- processes -------------------------------------------------------------------------------------------------- */

static const char *known(const char *text)
{
	return *text ? text : NULL;
}

static json_t *fleet_process_head(const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	struct emitter out = emit_to(NULL, true);
	json_t *process;

	emit_text(&out, "host", known(snapshot->host));
	emit_text(&out, "comm", known(snapshot->comm));
	emit_text(&out, "exe", known(snapshot->exe));
	emit_text(&out, "kernel", known(snapshot->kernel));
	emit_text(&out, "cgroup", known(snapshot->cgroup));
	emit_text(&out, "allocsnap_version", known(snapshot->version));
	emit_int(&out, "pid", snapshot->pid);
	emit_object(&out, "labels");
	for (uint32_t i = 0; i < snapshot->label_nr; i++)
		emit_text(&out, facts->label[snapshot->label + i].name, facts->label[snapshot->label + i].value);
	emit_end(&out);
	emit_value_of(&out, &process);
	return process;
}

/* A process of both cohorts is one: they are found by their place in the list, which the cohorts share by number. */
static int find_process_number(struct adding_cohort *job, const struct fleet_snapshot *snapshot)
{
	struct report_data *data = job->adding.data;
	json_t *process;
	int err = array_fill(data, process, (size_t)snapshot->process + 1, at, UINT32_MAX);

	if (err)
		return err;
	if (data->process[snapshot->process] == UINT32_MAX) {
		process = fleet_process_head(job->input->facts, snapshot);
		if (!process || json_array_append_new(data->processes, process))
			return -ENOMEM;
		data->process[snapshot->process] = json_array_size(data->processes) - 1;
	}
	job->process = data->process[snapshot->process];
	return 0;
}

/* ---- the rows of the catalogue ----------------------------------------------------------------------------------- */

/* A row of the catalogue is a trace of the dictionary: a traceback and a domain. */
static int add_fleet_row(struct adding_cohort *job, size_t at, struct reason *why)
{
	struct adding *adding = &job->adding;
	const struct fleet_row *fleet_row = &job->rows.row[at];
	const struct spread *spread = job->rows.spread ? &job->rows.spread[at] : NULL;
	unsigned int columns = adding->data->key_columns;
	struct report_key key = { .process = columns & REPORT_KEY_PROCESS ? job->process : 0 };
	const struct snapshot_tables *tables = adding->tables;
	uint32_t origin = fleet_row->origin, traceback = 0, key_id = 0, row = 0;
	int err;

	if (!selector_takes(&adding->selector, origin))
		return 0;
	err = adding_find_domain(adding, tables->trace_domain ? tables->trace_domain[origin] : 0, &key.domain) ?:
	      adding_find_traceback(adding, tables->trace_traceback[origin], &traceback) ?:
	      report_key_add(adding->data, &key, &key_id) ?: report_row_add(adding->data, traceback, key_id, &row);
	return err ?: adding_add(adding, row, &fleet_row->cost, spread, why);
}

static int compare_by_traceback(const void *left, const void *right, void *job_)
{
	const struct adding_cohort *job = job_;
	const int64_t *id = job->input->traceback_id;
	const uint32_t *domain = job->adding.tables->trace_domain;
	uint32_t a = job->rows.row[*(const uint32_t *)left].origin, b = job->rows.row[*(const uint32_t *)right].origin;

	return (id[a] > id[b]) - (id[a] < id[b]) ?: domain ? (domain[a] > domain[b]) - (domain[a] < domain[b]) : 0;
}

/* So a page does not depend on the order in which files were indexed, nor on what else is there. */
static int order_by_traceback(struct adding_cohort *job)
{
	int err = array_reserve(&job->order, &job->order_alloc, job->rows.nr + 1);

	job->order_nr = 0;
	for (size_t i = 0; i < job->rows.nr && !err; i++)
		if (job->rows.row[i].origin < job->adding.tables->trace_nr)
			job->order[job->order_nr++] = i;
	if (!err)
		qsort_r(job->order, job->order_nr, sizeof(*job->order), compare_by_traceback, job);
	return err;
}

static int add_fleet_snapshot(struct adding_cohort *job, const struct fleet_snapshot *snapshot, struct reason *why)
{
	int err = find_process_number(job, snapshot);

	err = err ?: job->input->rows.read(job->input->rows.what, snapshot, &job->rows, why) ?: order_by_traceback(job);
	for (size_t i = 0; i < job->order_nr && !err; i++)
		err = add_fleet_row(job, job->order[i], why);
	return err;
}

/* ---- the column ------------------------------------------------------------------------------------------------- */

static void emit_cohort_head(struct emitter *out, const struct cohort *cohort)
{
	uint64_t sampled = 0;

	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		sampled += cohort->snapshot[i]->is_sampled;
	emit_object(out, "cohort");
	emit_uint(out, "snapshots", cohort->snapshot_nr);
	emit_uint(out, "processes", cohort->process_nr);
	emit_uint(out, "hosts", cohort->host_nr);
	emit_uint(out, "sampled", sampled);
	emit_end(out);
}

/* A sum that is too large is the largest number, in both members. */
static void add_both_capped(struct cost *to, int64_t size, int64_t count)
{
	if (__builtin_add_overflow(to->size, size, &to->size) || __builtin_add_overflow(to->count, count, &to->count))
		to->size = to->count = INT64_MAX;
}

static int cohort_column_head(const struct cohort_input *input, json_t **ret)
{
	struct emitter out = emit_to(NULL, true);
	struct cost all = {}, gaps = {};
	int64_t latest_ns = 0;
	bool has_pools = false;

	for (size_t i = 0; i < input->cohort->snapshot_nr; i++) {
		const struct fleet_snapshot *snapshot = input->cohort->snapshot[i];

		latest_ns = snapshot->time_ns > latest_ns ? snapshot->time_ns : latest_ns;
		add_both_capped(&all, snapshot->size, snapshot->count);
		add_both_capped(&gaps, snapshot->gap_blocks.size, snapshot->gap_blocks.count);
		has_pools |= snapshot->is_open;
	}
	emit_text(&out, "name", input->name);
	emit_int(&out, "wall_ms", latest_ns / 1000000);
	emit_cohort_head(&out, input->cohort);
	emit_object(&out, "traced");
	emit_int(&out, "current", all.size);
	emit_end(&out);
	emit_int(&out, "blocks", all.count);
	emit_object(&out, "gap_blocks");
	emit_sizes(&out, &gaps, NULL);
	emit_end(&out);
	if (has_pools) {
		emit_object(&out, "sampling");
		emit_uint(&out, "has_pools", 1);
		emit_end(&out);
	}
	return emit_value_of(&out, ret);
}

static int put_cohort_column(struct adding_cohort *job, size_t cell_max, struct reason *why)
{
	struct report_data *data = job->adding.data;
	struct report_column *column;
	int err = array_push(data, column, (struct report_column){});

	if (err)
		return err;
	column = &data->column[data->column_nr - 1];
	err = adding_put_changes(&job->adding, column);
	data->cell_nr += column->cell_nr;
	if (!err && data->cell_nr > cell_max)
		return reason_set(why, -EFBIG, "too many tracebacks for a report: more than %zu changes", cell_max);
	return err ?: cohort_column_head(job->input, &column->head);
}

int report_add_cohort(struct report_data *data, const struct cohort_input *input, size_t cell_max, struct reason *why)
{
	struct adding_cohort job = { .input = input };
	int err = adding_init(&job.adding, data, input->dictionary, input->options, 0, why);

	data->processes = data->processes ?: json_array();
	for (size_t i = 0; i < input->cohort->snapshot_nr && !err; i++)
		err = add_fleet_snapshot(&job, input->cohort->snapshot[i], why);
	err = err ?: put_cohort_column(&job, cell_max, why);
	fleet_rows_release(&job.rows);
	free(job.order);
	adding_release(&job.adding);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}
