// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/add_cohort.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/row_codec.h"
#include "render/json_parts.h"
#include "report/adding.h"

struct adding_cohort {
	struct adding adding;
	const struct cohort_input *input;
	struct fleet_rows rows;
	uint32_t *order; /* of the rows of one snapshot */
	size_t order_nr, order_alloc;
	uint32_t process; /* of the snapshot: its number in the report */
};

/* ---- processes -------------------------------------------------------------------------------------------------- */

static json_t *labels_of(const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	json_t *labels = json_object();
	int err = 0;

	for (uint32_t i = 0; i < snapshot->label_nr && !err; i++)
		err = json_set_text(labels, facts->label[snapshot->label + i].name, facts->label[snapshot->label + i].value);
	return json_unless(err, labels);
}

static const char *known(const char *text)
{
	return *text ? text : NULL;
}

static json_t *fleet_process_head(const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	json_t *process = json_object();
	int err = json_set_text(process, "host", known(snapshot->host));

	err = err ?: json_set_text(process, "comm", known(snapshot->comm)) ?:
	      json_set_text(process, "exe", known(snapshot->exe)) ?:
	      json_set_text(process, "kernel", known(snapshot->kernel)) ?:
	      json_set_text(process, "cgroup", known(snapshot->cgroup)) ?:
	      json_set_text(process, "allocsnap_version", known(snapshot->version)) ?:
	      json_set_int(process, "pid", snapshot->pid) ?:
	      json_set(process, "labels", labels_of(facts, snapshot));
	return json_unless(err, process);
}

/* A process of both cohorts is one: they are found by their place in the list, which the cohorts share by number. */
static int find_process_number(struct adding_cohort *job, const struct fleet_snapshot *snapshot)
{
	struct report_data *data = job->adding.data;
	json_t *process;
	int err = 0;

	for (uint32_t at = data->process_nr; !err && at <= snapshot->process; at++)
		err = array_push(data, process, UINT32_MAX);
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

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

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

static json_t *cohort_head(const struct cohort *cohort)
{
	uint64_t sampled = 0;
	json_t *head = json_object();
	int err;

	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		sampled += cohort->snapshot[i]->is_sampled;
	err = json_set_uint(head, "snapshots", cohort->snapshot_nr) ?:
	      json_set_uint(head, "processes", cohort->process_nr) ?:
	      json_set_uint(head, "hosts", cohort->host_nr) ?: json_set_uint(head, "sampled", sampled);
	return json_unless(err, head);
}

/* Whether any of its samples are pools. */
static int set_cohort_sampling(json_t *head, const struct cohort *cohort)
{
	json_t *sampling;
	bool is_open = false;

	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		is_open |= cohort->snapshot[i]->is_open;
	if (!is_open)
		return 0;
	sampling = json_object();
	return json_set(head, "sampling", json_unless(json_set_uint(sampling, "has_pools", 1), sampling));
}

static json_t *cohort_column_head(const struct cohort_input *input)
{
	int64_t latest_ns = 0, size = 0, count = 0;
	json_t *head = json_object(), *traced = json_object(), *stale = json_object();
	struct cost gaps = {};
	int err;

	for (size_t i = 0; i < input->cohort->snapshot_nr; i++) {
		const struct fleet_snapshot *snapshot = input->cohort->snapshot[i];

		latest_ns = snapshot->time_ns > latest_ns ? snapshot->time_ns : latest_ns;
		if (__builtin_add_overflow(size, snapshot->size, &size) ||
		    __builtin_add_overflow(count, snapshot->count, &count))
			size = count = INT64_MAX;
		if (__builtin_add_overflow(gaps.size, snapshot->gap_blocks.size, &gaps.size) ||
		    __builtin_add_overflow(gaps.count, snapshot->gap_blocks.count, &gaps.count))
			gaps.size = gaps.count = INT64_MAX;
	}
	err = json_set_int(traced, "current", size);
	traced = json_unless(err, traced);
	err = json_set_int(stale, "size", gaps.size) ?: json_set_int(stale, "count", gaps.count);
	stale = json_unless(err, stale);
	err = json_set_text(head, "name", input->name) ?: json_set_int(head, "wall_ms", latest_ns / 1000000) ?:
	      json_set(head, "cohort", cohort_head(input->cohort)) ?: json_set(head, "traced", traced) ?:
	      json_set_int(head, "blocks", count);
	err = json_set(head, "gap_blocks", stale) ?: err;
	err = err ?: set_cohort_sampling(head, input->cohort);
	return json_unless(err, head);
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
	column->head = cohort_column_head(job->input);
	return err ?: column->head ? 0 : -ENOMEM;
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
