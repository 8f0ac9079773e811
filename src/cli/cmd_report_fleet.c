// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap fleet report: one HTML file about many processes, or about two cohorts of them. */
#include <errno.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "cli/report_output.h"
#include "fleet/cluster/cluster_rows.h"
#include "render/json_parts.h"
#include "report/adding.h"
#include "report/build_report.h"

struct fleet_page_options {
	struct fleet_options fleet;
	struct string_list baseline, candidate;
	const char *output;
};

struct fleet_page {
	const struct fleet_page_options *options;
	struct fleet fleet;
	struct cohort cohort[2];
	size_t cohort_nr;
	struct report_facts facts;
	struct report_data data;
};

/* ---- which processes -------------------------------------------------------------------------------------------- */

static int choose_page_cohorts(struct fleet_page *page)
{
	const struct fleet_page_options *options = page->options;
	const struct fleet_where where = { "where", &options->fleet.where };
	const struct fleet_choice alone = {
		{ where }, options->fleet.all_processes ? COHORT_LATEST : COHORT_LIVE, &page->cohort[0],
	};
	const struct fleet_choice both[] = {
		{ { where, { "baseline", &options->baseline } }, COHORT_LATEST, &page->cohort[0] },
		{ { where, { "candidate", &options->candidate } }, COHORT_LATEST, &page->cohort[1] },
	};

	page->cohort_nr = options->baseline.item_nr ? 2 : 1;
	return fleet_choose(&cmd_report_fleet, &page->fleet, page->cohort_nr == 2 ? both : &alone, page->cohort_nr);
}

/* ---- its data --------------------------------------------------------------------------------------------------- */

struct page_reader {
	struct fleet *fleet;
	struct rows_reader *catalogue;
	struct cluster_rows *cluster;
};

static int read_page_rows(void *reader_, const struct fleet_snapshot *snapshot, struct fleet_rows *rows, struct reason *why)
{
	struct page_reader *reader = reader_;

	return reader->cluster ? cluster_rows__read(reader->cluster, snapshot, rows, why) :
	       rows_reader__read(reader->catalogue, snapshot->snapshot_id, reader->fleet->facts.origin_nr, rows, why);
}

static int add_page_cohort(struct fleet_page *page, size_t at, size_t cell_max, struct reason *why)
{
	static const char *const names[] = { "baseline", "candidate" };
	struct fleet *fleet = &page->fleet;
	struct page_reader reader = { .fleet = fleet };
	const struct cohort_input input = {
		.name = page->cohort_nr == 1 ? "latest of each process" : names[at],
		.rows = { read_page_rows, &reader },
		.facts = &fleet->facts,
		.cohort = &page->cohort[at],
		.dictionary = fleet->dictionary.snapshot,
		.traceback_id = fleet->dictionary.traceback_id,
		.options = &fleet->chosen.engine,
	};
	int err = fleet->units ? cluster_rows__new(fleet->units, input.cohort, &reader.cluster, why) :
				 rows_reader__new(fleet->catalogue, &reader.catalogue, why);

	err = err ?: report_add_cohort(&page->data, &input, cell_max, why);
	cluster_rows__free(reader.cluster);
	rows_reader__free(reader.catalogue);
	return err;
}

static int add_page_cohorts(struct fleet_page *page, size_t cell_max, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < page->cohort_nr && !err; i++)
		err = add_page_cohort(page, i, cell_max, why);
	return err;
}

/* Without room for each process, the page has their sum. */
static int fill_page(struct fleet_page *page, struct reason *why)
{
	const unsigned int wanted = REPORT_KEY_DOMAIN | REPORT_KEY_PROCESS;
	int err = report_data_init(&page->data, wanted) ?: add_page_cohorts(page, REPORT_CELLS_MAX, why);

	if (err == -EFBIG) {
		report_data_release(&page->data);
		err = report_data_init(&page->data, REPORT_KEY_DOMAIN) ?: add_page_cohorts(page, SIZE_MAX, why);
	}
	page->data.key_columns_wanted = wanted;
	page->data.head = json_object();
	return err ?: json_set(page->data.head, "processes", json_incref(page->data.processes)) ?:
	       json_set(page->data.head, "gaps", json_array());
}

/* The losses are sums over all processes, and stand at the last column. */
static int set_page_losses(struct fleet_page *page, const struct report *report)
{
	json_t *losses = json_object();
	int err = 0;

	for (size_t i = 0; i < report->loss_nr && !err; i++)
		if (report->loss[i].value)
			err = json_set(losses, report->loss[i].name, json_count(report->loss[i].value));
	return json_set(page->data.column[page->data.column_nr - 1].head, "losses", json_unless(err, losses));
}

/* The doubts that `fleet stats` and `fleet diff` have of the same cohorts; they are on stderr already. */
static int add_page_doubts(struct fleet_page *page)
{
	const struct cohort *const cohort[] = { &page->cohort[0], &page->cohort[1] };
	struct fleet_report report;
	int status = fleet_report_make(&page->fleet, cohort, page->cohort_nr, &report);

	for (size_t i = 0; !status && i < report.doubts.nr; i++)
		if (json_array_append_new(page->facts.warnings, json_clean_string(report.doubts.line[i])))
			status = log_failure("out of memory");
	if (!status && set_page_losses(page, &report.report))
		status = log_failure("out of memory");
	fleet_report_release(&report);
	return status;
}

static int write_fleet_page(struct fleet_page *page)
{
	struct reason why = { "out of memory" };
	int status = EXIT_DONE;

	if (fill_page(page, &why))
		return log_failure("%s", why.text);
	fleet_let_go(&page->fleet);
	page->facts.kind = "fleet";
	for (size_t i = 0; i < page->cohort_nr; i++)
		page->facts.given_nr += page->cohort[i].snapshot_nr;
	page->facts.shown_nr = page->facts.given_nr;
	status = add_page_doubts(page);
	return status ?: report_output_write(page->options->output, &page->data, &page->facts);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static int run(const void *command_options, const struct arguments *args)
{
	struct fleet_page page = { .options = command_options };
	const struct fleet_page_options *options = page.options;
	const struct cohort *const chosen[] = { &page.cohort[0], &page.cohort[1] };
	int status = report_output_check(&cmd_report_fleet, options->output);

	(void)args;
	if (status)
		return status;
	if (!options->baseline.item_nr != !options->candidate.item_nr)
		return log_refusal(&cmd_report_fleet, "--baseline and --candidate go together");
	status = report_facts_init(&page.facts, &options->fleet.stats.select) ?:
		 fleet_begin(&cmd_report_fleet, &options->fleet, &page.fleet);
	page.fleet.wants_labels = true;
	status = status ?: choose_page_cohorts(&page) ?: fleet_read(&page.fleet, chosen, page.cohort_nr, FLEET_ROWS) ?:
		 write_fleet_page(&page);
	report_data_release(&page.data);
	cohort_release(&page.cohort[0]);
	cohort_release(&page.cohort[1]);
	report_facts_release(&page.facts);
	fleet_end(&page.fleet);
	return status;
}

#define FIELD(name) offsetof(struct fleet_page_options, name)
#define SELECT FIELD(fleet.stats.select)

static const struct option_row rows[] = {
	{ "output", 'o', OPTION_STRING, FIELD(output),
	  .arg = "OUT", .help = "write OUT, completely or not at all; - is standard output" },
	{ "baseline", 0, OPTION_LIST, FIELD(baseline),
	  .arg = "SEL", .help = "compare with processes that match SEL (see below); repeatable: all must match" },
	{ "candidate", 0, OPTION_LIST, FIELD(candidate),
	  .arg = "SEL", .help = "compare processes that match SEL with the baseline; repeatable: all must match" },
	{},
};

const struct command cmd_report_fleet = {
	.name = "fleet report",
	.args = "-o OUT.html",
	.help = "write an HTML page about a fleet: the latest snapshots, or two cohorts",
	.detail = "The page has the sum of each process's latest snapshot, and a filter by host and process. Processes that "
		  "had ended are left out, as in 'fleet stats', and a line says so. With --baseline and --candidate it compares "
		  "two cohorts, also of processes that had ended. It is one file of at most about 1.5 MB, like a "
		  "page of 'allocsnap report'.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	.example = "allocsnap fleet report --where 'comm=redis*' -o redis.html",
	.option = { { rows, 0, "Output" }, { source_rows, FIELD(fleet), "Which snapshots" },
		    { where_rows, FIELD(fleet), "Which snapshots" }, { live_rows, FIELD(fleet), "Which snapshots" },
		    { names_rows, FIELD(fleet), "Report" },
		    { filter_rows, SELECT, "Filters" }, { wrapper_rows, SELECT, "Own frames" } },
	.defaults = &(const struct fleet_page_options){ .fleet = { FLEET_DEFAULTS } },
	.options_size = sizeof(struct fleet_page_options),
	.run = run,
};
