// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/build_report.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "render/json_parts.h"
#include "report/add_snapshot.h"
#include "report/report_head.h"
#include "report/source_lines.h"
#include "snapshot.h"
#include "symbolize/share_names.h"

/* The last snapshot is open all the time: it has the names that the others may lack, and tells the ages. */
struct building {
	const struct series *series;
	const struct report_request *request;
	struct report_data *data;
	struct snapshot *last;
	uint64_t gap_ns; /* the last gap of the process; 0: there is none */
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
	json_t *head = building->data->head = json_object(), *process = NULL;
	int err = report_process_head(building->last, &process);

	err = err ?: json_set(head, "process", process);
	return err ?: report_set_gaps(head, building->last);
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
