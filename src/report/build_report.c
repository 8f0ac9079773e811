// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/build_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "engine/estimate.h"
#include "engine/keys.h"
#include "engine/trace_cost.h"
#include "render/facts.h"
#include "render/json_parts.h"
#include "render/page_facts.h"
#include "render/source_tree.h"
#include "report/adding.h"
#include "snapshot.h"
#include "symbolize/share_names.h"

#define LINES_AROUND 2
#define LINE_CHARACTERS 240

struct reading {
	struct report_data *data;
	struct source_tree *tree;
	uint64_t recorded_ns;
	size_t newer_nr;
	uint8_t *verdict; /* by string id of a file: enum verdict */
};

enum verdict {
	FILE_NOT_ASKED = 0,
	FILE_TAKEN,
	FILE_IS_NEWER,
};

/* Whole characters only. */
static void cut_line(char *line)
{
	size_t at = 0;

	for (int i = 0; line[at] && i < LINE_CHARACTERS; i++)
		at += utf8_len(line + at) ?: 1;
	line[at] = '\0';
}

static int add_source_line(json_t *lines, struct reading *reading, const char *file, uint32_t number)
{
	char *line = source_tree__indented_line(reading->tree, file, number), key[16];
	int err = 0;

	if (!line)
		return 0;
	cut_line(line);
	for (char *tab = line; *tab; tab++)
		*tab = *tab == '\t' ? ' ' : *tab; /* a cleaned tab is four characters */
	snprintf(key, sizeof(key), "%u", number);
	err = json_set(lines, key, json_clean_string(line));
	free(line);
	return err;
}

/* The lines of a file that are there already, or a new list. Borrowed; NULL: no memory. */
static json_t *find_lines(struct reading *reading, uint32_t file)
{
	json_t *lines;
	char key[16];

	snprintf(key, sizeof(key), "%u", file);
	lines = json_object_get(reading->data->sources, key);
	if (lines)
		return lines;
	lines = json_object();
	return json_object_set_new(reading->data->sources, key, lines) ? NULL : lines;
}

static bool is_file_taken(struct reading *reading, uint32_t file, const char *name)
{
	uint8_t *verdict = &reading->verdict[file];

	if (*verdict == FILE_NOT_ASKED) {
		*verdict = source_tree__is_newer(reading->tree, name, reading->recorded_ns) ? FILE_IS_NEWER : FILE_TAKEN;
		reading->newer_nr += *verdict == FILE_IS_NEWER;
	}
	return *verdict == FILE_TAKEN;
}

static int add_lines_of_frame(struct reading *reading, const struct report_frame *frame)
{
	const char *name = strpool_get(&reading->data->strings, frame->file);
	uint64_t last = (uint64_t)frame->line + LINES_AROUND; /* a file may say that a line is the last of 2^32 */
	json_t *lines;
	int err = 0;

	if (!frame->line || frame->is_library || !is_file_taken(reading, frame->file, name))
		return 0;
	lines = find_lines(reading, frame->file);
	if (!lines)
		return -ENOMEM;
	for (uint64_t at = frame->line > LINES_AROUND ? frame->line - LINES_AROUND : 1;
	     at <= last && at <= UINT32_MAX && !err; at++)
		err = add_source_line(lines, reading, name, at);
	return err;
}

int report_add_sources(struct report_data *data, const char *folder, uint64_t recorded_ns, size_t *ret_newer_nr)
{
	struct reading reading = { .data = data, .tree = source_tree__open(folder), .recorded_ns = recorded_ns };
	int err = 0;

	data->sources = json_object();
	reading.verdict = calloc(data->strings.start_nr ?: 1, 1);
	if (!data->sources || !reading.verdict)
		err = -ENOMEM;
	for (size_t i = 0; i < data->frame_nr && !err; i++)
		err = add_lines_of_frame(&reading, &data->frame[i]);
	source_tree__close(reading.tree);
	free(reading.verdict);
	*ret_newer_nr = reading.newer_nr;
	return err;
}

/* The facts of a report, as docs/report-format.md has them. Functions return 0 or a negative errno. */

#define GAPS_MAX 1000 /* a page is some 1,000 pixels wide */

/* ---- a snapshot ----------------------------------------------------------------------------------------------- */

/* Only what is above 0. */
static void emit_counters_above_0(struct emitter *out, const char *key, const struct snapshot *snapshot,
				  enum snap_counter_kind kind)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	emit_object(out, key);
	for (uint32_t i = 0; i < tables->counter_nr; i++)
		if (tables->counter[i].kind == kind && tables->counter[i].value)
			emit_uint(out, snapshot__string(snapshot, tables->counter[i].name), tables->counter[i].value);
	emit_end(out);
}

static void emit_sampling_head(struct emitter *out, const struct snapshot *snapshot)
{
	if (!snapshot__tables(snapshot)->trace_weight)
		return;
	emit_object(out, "sampling");
	emit_uint(out, "bytes", snapshot__metadata_u64(snapshot, "sample_bytes", 0));
	emit_uint(out, "unseen_bytes", snapshot__metadata_u64(snapshot, "sample_bytes_most", 0));
	if (snapshot__tables(snapshot)->gap_nr)
		emit_uint(out, "has_gaps", 1);
	if (snapshot_samples_pools(snapshot))
		emit_uint(out, "has_pools", 1);
	emit_end(out);
}

static void emit_gap_blocks(struct emitter *out, const struct snapshot *snapshot, const struct engine_options *options)
{
	struct cost cost = {};
	int err;

	if (!snapshot__tables(snapshot)->gap_nr)
		return;
	err = snapshot_gap_blocks(snapshot, options, &cost, NULL);
	if (err == -ENODATA || (!err && !cost.count))
		return; /* it does not say when its blocks were born */
	emit_err(out, err);
	emit_object(out, "gap_blocks");
	emit_sizes(out, &cost, NULL);
	emit_end(out);
}

/* Numbers of the metadata, which may be missing. */
static void emit_number(struct emitter *out, const struct snapshot *snapshot, const char *key)
{
	uint64_t number = snapshot__metadata_u64(snapshot, key, UINT64_MAX);

	if (number != UINT64_MAX)
		emit_uint(out, key, number);
}

static void emit_moment(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0);

	if (wall_ns)
		emit_uint(out, "wall_ms", wall_ns / 1000000);
	emit_number(out, snapshot, "monotonic_ns");
	emit_number(out, snapshot, "recording_start_monotonic_ns");
	emit_text(out, "trigger", snapshot__metadata(snapshot, "trigger"));
	emit_text(out, "end", snapshot__metadata(snapshot, "end"));
}

static int report_snapshot_head(const struct snapshot *snapshot, const char *name, const struct engine_options *options,
			 json_t **ret)
{
	struct emitter out = emit_to(NULL, true);
	struct snapshot_facts facts = snapshot_facts(snapshot);

	emit_text(&out, "name", path_name(name));
	emit_moment(&out, snapshot);
	emit_object(&out, "traced");
	emit_uint(&out, "current", facts.current_bytes);
	if (facts.has_peak)
		emit_uint(&out, "peak", facts.peak_bytes);
	emit_end(&out);
	emit_uint(&out, "blocks", facts.blocks);
	emit_rss(&out, snapshot);
	emit_pages(&out, snapshot);
	emit_cost(&out, snapshot);
	emit_counters_above_0(&out, "losses", snapshot, SNAP_LOST);
	emit_counters_above_0(&out, "counters", snapshot, SNAP_COUNTED);
	emit_tracebacks(&out, &facts);
	emit_gap_blocks(&out, snapshot, options);
	emit_sampling_head(&out, snapshot);
	return emit_value_of(&out, ret);
}

/* ---- the process ---------------------------------------------------------------------------------------------- */

static void emit_process_head(struct emitter *out, const struct snapshot *snapshot)
{
	static const char *const texts[] = {
		"host", "comm", "exe", "cmdline", "kernel", "cgroup", "unwinder", "allocsnap_version", "unrecorded",
	};
	static const char *const numbers[] = {
		"pid", "traceback_limit", "rss_at_start_bytes", "recording_start_monotonic_ns", "sample_bytes",
		"min_size", "max_size", "max_overhead_percent", "max_overhead_core_percent",
	};
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	emit_object(out, "process");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		emit_text(out, texts[i], snapshot__metadata(snapshot, texts[i]));
	emit_text(out, "pages", snapshot_has_pages(snapshot) ? PAGES_MEANING : NULL);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		emit_number(out, snapshot, numbers[i]);
	emit_object(out, "labels");
	for (uint32_t i = 0; i < tables->metadata_nr; i++) {
		const char *key = snapshot__string(snapshot, tables->metadata[i].key);

		if (!strncmp(key, "label.", 6))
			emit_text(out, key + 6, snapshot__string(snapshot, tables->metadata[i].value));
	}
	emit_end(out);
	emit_end(out);
}

/* ---- gaps ----------------------------------------------------------------------------------------------------- */

/* Gaps with less time between them are joined, so that at most GAPS_MAX are left. 0: none are. */
static int find_shown_distance(const struct snap_gap *gap, uint32_t gap_nr, uint64_t *ret_ns)
{
	uint64_t *distance;

	*ret_ns = 0;
	if (gap_nr <= GAPS_MAX)
		return 0;
	distance = calloc(gap_nr, sizeof(*distance));
	if (!distance)
		return -ENOMEM;
	for (uint32_t i = 1; i < gap_nr; i++)
		distance[i - 1] = gap[i].start_ns - gap[i - 1].end_ns;
	qsort(distance, gap_nr - 1, sizeof(*distance), array_by_number);
	*ret_ns = distance[gap_nr - GAPS_MAX - 1] + 1;
	free(distance);
	return 0;
}

/* "gaps": the snapshot's gaps; neighbours are joined if there are too many, and "gaps_joined" says how many. */
static void emit_joined_gaps(struct emitter *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint32_t nr = 0;
	uint64_t shown_ns;

	emit_err(out, find_shown_distance(tables->gap, tables->gap_nr, &shown_ns));
	emit_list(out, "gaps");
	for (uint32_t i = 0; i < tables->gap_nr; i++, nr++) {
		emit_object(out, NULL);
		emit_uint(out, "start_ns", tables->gap[i].start_ns);
		while (i + 1 < tables->gap_nr && tables->gap[i + 1].start_ns - tables->gap[i].end_ns < shown_ns)
			i++;
		emit_uint(out, "end_ns", tables->gap[i].end_ns);
		emit_end(out);
	}
	emit_end(out);
	if (nr < tables->gap_nr)
		emit_uint(out, "gaps_joined", tables->gap_nr - nr);
}

/* The key of the trace before, which the next one often has, too. IDMAP_NONE: no trace came before. */
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
	err = sum_churn(adding, NULL, 0) ?:
	      array_fill(data, last_churn, data->traceback_nr, at, ((struct report_churn){ .traceback = at }));
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

/* The limits of the classes of `--group-by age`, at the time of the last snapshot, as boundaries of births. */
static int report_add_age_boundaries(struct report_data *data, uint64_t now_ns)
{
	int err = 0;

	for (size_t class = 0; age_class_limit_ns(class) && !err; class++)
		if (age_class_limit_ns(class) < now_ns)
			err = report_boundary_add(data, now_ns - age_class_limit_ns(class));
	return err;
}

/* The last snapshot is open all the time: it has the names that the others may lack, and ages count back from it. */
struct building {
	const struct series *series;
	const struct report_request *request;
	struct report_data *data;
	struct snapshot *last;
	uint64_t gap_ns; /* the last gap of the process; 0: no gap */
};

static int set_error(int err, struct reason *why)
{
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

static struct snapshot *open_item(const struct series_item *item, int *ret_err, struct reason *why)
{
	struct snapshot *snapshot = snapshot__open(item->path, why);

	*ret_err = snapshot ? 0 : -errno;
	return snapshot;
}

/* The line of a question about one snapshot gets the name of its file. */
static int name_file(int err, const struct series_item *item, struct reason *why)
{
	struct reason line = *why;

	if (!err || err == -EFBIG || err == -ENOMEM)
		return err;
	return reason_set(why, err, "%.200s: %.300s", item->path, line.text);
}

/* Names that only one of two snapshots has count for both. */
static int add_named(struct building *building, size_t at, const struct snapshot *snapshot, struct reason *why)
{
	const struct snapshot *const both[] = { snapshot, building->last };
	const struct series_item *item = &building->series->item[at];
	size_t cell_max = building->request->cell_max ?: REPORT_CELLS_MAX;
	struct report_input input = { .name = item->path, .options = building->request->engine, .gap_ns = building->gap_ns };
	struct shared_names names = {};
	int err = names_share(both, &names);

	if (err && err != -EFBIG)
		return err;
	input.snapshot = names.named[0] ?: snapshot;
	err = name_file(report_add_snapshot(building->data, &input, cell_max, why), item, why);
	snapshot__close(names.named[0]);
	snapshot__close(names.named[1]);
	return err;
}

static int add_item(struct building *building, size_t at, struct reason *why)
{
	struct snapshot *snapshot;
	int err;

	snapshot = open_item(&building->series->item[at], &err, why);
	if (!snapshot)
		return err;
	err = add_named(building, at, snapshot, why);
	snapshot__close(snapshot);
	return err;
}

static int add_items(struct building *building, struct reason *why)
{
	size_t nr = building->series->item_nr;
	struct progress progress = progress_begin("adding", "snapshots", nr);
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		progress_show(&progress, i);
		err = add_item(building, i, why);
	}
	progress_end(&progress);
	return err;
}

/* ---- one attempt ------------------------------------------------------------------------------------------------ */

static int set_head(struct building *building)
{
	struct emitter out = emit_to(NULL, true);

	emit_process_head(&out, building->last);
	emit_joined_gaps(&out, building->last);
	return emit_value_of(&out, &building->data->head);
}

/* A program is built before it is recorded, so that sources that were changed since are others. */
static uint64_t recording_begin_ns(const struct series_item *first)
{
	uint64_t recorded_ns = first->begin_ns && first->begin_ns < first->moment.monotonic_ns ?
			       first->moment.monotonic_ns - first->begin_ns : 0;

	return first->moment.wall_ns > recorded_ns ? first->moment.wall_ns - recorded_ns : 0;
}

static void find_last_gap(struct building *building)
{
	const struct snapshot_tables *tables = snapshot__tables(building->last);

	if (tables->gap_nr && series_is_one_process(building->series))
		building->gap_ns = tables->gap[tables->gap_nr - 1].start_ns;
}

static int fill_data(struct building *building, struct reason *why)
{
	const struct series_item *last = &building->series->item[building->series->item_nr - 1];
	int err;

	building->last = open_item(last, &err, why);
	if (!building->last)
		return err;
	find_last_gap(building);
	if (series_is_one_process(building->series))
		err = report_add_age_boundaries(building->data, last->moment.monotonic_ns);
	err = err ?: add_items(building, why) ?: set_head(building);
	snapshot__close(building->last);
	return err;
}

/* ---- until it fits ------------------------------------------------------------------------------------------------ */

/* Times of births mean nothing on another machine's clock. */
static unsigned int first_key_columns(const struct series *series)
{
	return series_is_one_process(series) ? REPORT_KEY_ALL & ~REPORT_KEY_PROCESS :
					       REPORT_KEY_ALL & ~(REPORT_KEY_PROCESS | REPORT_KEY_BIRTH);
}

/* Takes away what takes the most memory. False: nothing is left to take away. */
static bool ask_for_less(struct series *series, unsigned int *key_columns, int *ret_err)
{
	static const unsigned int order[] = { REPORT_KEY_BIRTH, REPORT_KEY_SIZE_CLASS, REPORT_KEY_THREAD };

	*ret_err = 0;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (*key_columns & order[i]) {
			*key_columns &= ~order[i];
			return true;
		}
	if (series->item_nr <= 2)
		return false;
	*ret_err = series_thin(series, series->item_nr / 2 > 2 ? series->item_nr / 2 : 2);
	return true;
}

static int try_to_build(struct series *series, const struct report_request *request, unsigned int key_columns,
			struct report_data *ret, struct reason *why)
{
	struct building building = { .series = series, .request = request, .data = ret };

	return report_data_init(ret, key_columns) ?: fill_data(&building, why);
}

int build_report(struct series *series, const struct report_request *request, struct report_data *ret,
		 size_t *ret_newer_nr, struct reason *why)
{
	unsigned int wanted = first_key_columns(series), key_columns = wanted;
	int err, thin_err = 0;

	*ret_newer_nr = 0;
	while ((err = try_to_build(series, request, key_columns, ret, why)) == -EFBIG &&
	       ask_for_less(series, &key_columns, &thin_err) && !thin_err)
		report_data_release(ret);
	ret->key_columns_wanted = wanted;
	err = thin_err ?: err;
	if (!err && request->source_dir)
		err = report_add_sources(ret, request->source_dir, recording_begin_ns(&series->item[0]), ret_newer_nr);
	return set_error(err, why);
}
