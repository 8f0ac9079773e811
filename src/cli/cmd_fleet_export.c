// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap fleet export: the snapshots of a catalogue as row tables of SQLite, for questions in SQL. */
#include <inttypes.h>

#include "base/progress.h"
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/row_export.h"
#include "fleet/row_file.h"

static void show_exported_rows(void *progress, uint64_t row_nr)
{
	progress_show(progress, row_nr);
}

static int write_row_file(const struct fleet *fleet, const struct cohort *cohort, const char *path, struct row_sent *ret,
			  struct reason *why)
{
	uint64_t row_nr = cohort_row_nr(cohort);
	struct progress progress = progress_begin("writing", "rows", row_nr);
	const struct row_snapshots job = {
		.catalogue = fleet->catalogue, .facts = &fleet->facts, .snapshot = cohort->snapshot,
		.snapshot_nr = cohort->snapshot_nr, .progress = show_exported_rows, .what = &progress,
	};
	struct row_file *file = NULL;
	int err = row_file__create(path, &file, why);

	err = err ?: row_export_names(fleet->catalogue, NULL, false, row_file__sink(file), why) ?:
	      row_export_snapshots(&job, row_file__sink(file), ret, why) ?: row_file__finish(file, why);
	progress_end(&progress);
	row_file__free(file);
	return err;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct fleet_options *options = command_options;
	struct reason why = { "out of memory" };
	struct cohort cohort = {};
	struct fleet fleet = { .options = options };
	struct row_sent sent = {};
	int status = fleet_open(&fleet);

	status = status ?: fleet_choose_where(&cmd_fleet_export, &fleet, COHORT_WITH_PARTS, &cohort);
	if (!status && write_row_file(&fleet, &cohort, args->item[0], &sent, &why))
		status = log_failure("%s", why.text);
	if (!status)
		printf("%zu snapshots, %" PRIu64 " rows\n", sent.snapshots, sent.rows);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status;
}

const struct command cmd_fleet_export = {
	.name = "fleet export",
	.args = "FILE",
	.arg_min = 1,
	.arg_max = 1,
	.help = "write snapshots as tables of SQLite, a row for each traceback, for questions in SQL",
	.detail = "FILE is written completely or not at all; a file of that name is replaced. The questions of the other "
		  "commands are installed as SQL in share/allocsnap/fleet.\n\n"
		  SELECTION_DETAIL,
	.example = "allocsnap fleet export --where time=2026-11-21 rows.db",
	.option = { { catalogue_rows, 0, "Which snapshots" }, { where_rows, 0, "Which snapshots" } },
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS },
	.options_size = sizeof(struct fleet_options),
	.run = run,
};
