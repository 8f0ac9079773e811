// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap report: one HTML file that shows a snapshot, a diff or a history. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "cli/cmd_select.h"
#include "cli/find_snapshot.h"
#include "cli/leak_input.h"
#include "cli/open_input.h"
#include "cli/report_output.h"
#include "render/caveats.h"
#include "render/json_parts.h"
#include "report/build_report.h"
#include "report/report_leaks.h"
#include "report/report_series.h"
#include "snapshot.h"
#include "symbolize/share_names.h"

extern const struct command cmd_report;

struct report_options {
	const char *output;
	const char *source_dir;
	struct select_options select;
};

/* A question while it is answered. */
struct report_job {
	const struct report_options *options;
	struct chosen chosen;
	struct series series;
	struct report_facts facts;
	size_t damaged_nr;
	struct report_judgement judgement;
	struct leaks *leaks;
	struct reason unjudged; /* why leaks is NULL */
};

/* ---- which snapshots -------------------------------------------------------------------------------------------- */

static int add_series_item(struct report_job *job, const char *path, bool is_one_of_many)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = is_one_of_many ? snapshot__open(path, &why) : open_snapshot(path);
	int err;

	if (!snapshot) {
		job->damaged_nr++;
		return is_one_of_many ? log_failure("%s", why.text) : EXIT_FAILED;
	}
	err = series_add(&job->series, path, snapshot);
	snapshot__close(snapshot);
	return err ? log_failure("out of memory") : EXIT_DONE;
}

/* A folder's damaged files are reported and left out. */
static int add_series_paths(struct report_job *job, const struct snapshot_paths *paths)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < paths->path_nr && (!status || job->damaged_nr); i++)
		status = add_series_item(job, paths->path[i], true);
	if (!job->series.item_nr || (status && !job->damaged_nr))
		return EXIT_FAILED;
	if (job->damaged_nr)
		log_info("%zu of %zu files cannot be read, and are left out", job->damaged_nr, paths->path_nr);
	return EXIT_DONE;
}

/* The snapshots of a folder, a PID or a COMM; nothing if text names one snapshot. */
static int find_history(struct report_job *job, const char *text)
{
	struct snapshot_paths paths;
	int status = find_process_snapshots(text, &paths);

	if (!status && paths.path_nr)
		status = add_series_paths(job, &paths);
	snapshot_paths_release(&paths);
	return status;
}

static int find_named_snapshots(struct report_job *job, const struct arguments *args)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < args->item_nr && !status; i++) {
		char *path = NULL;

		if (!strcmp(args->item[i], "-"))
			return log_refusal(&cmd_report, "a report reads its files more than once: not standard input");
		status = find_snapshot(args->item[i], &path) ?: add_series_item(job, path, args->item_nr > 2);
		free(path);
	}
	return status;
}

static int refuse_processes(const struct report_job *job)
{
	const struct series *series = &job->series;

	for (size_t i = 1; i < series->item_nr; i++)
		if (strcmp(series->item[i].process, series->item[0].process))
			return log_failure("%s and %s are of different processes: a history is of one ('allocsnap fleet "
					   "report' shows many)", series->item[0].path, series->item[i].path);
	return EXIT_DONE;
}

/* ---- which lines leak ------------------------------------------------------------------------------------------- */

/* Verdicts are about all blocks of a traceback. */
static bool is_part_of_tracebacks(const struct selection *select)
{
	return select->min_size || select->has_max_size || select->min_age_ns || select->max_age_ns || select->thread;
}

static int judge_paths(struct report_job *job, const char *const *path)
{
	const struct leak_choice choice = { .unjudged = &job->unjudged };
	struct reason why = { "out of memory" };
	struct leak_input input;
	int status = leak_input_choose(path, job->series.item_nr, &choice, &input), err;

	job->judgement.left_out_nr = input.left_out_nr;
	job->judgement.begin_ns = input.recording.times.begin_ns;
	if (!status) {
		err = leaks_find(&input.recording, &job->chosen.engine, &job->leaks, &why);
		if (err == -ENODATA)
			job->unjudged = why;
		else if (err)
			status = log_failure("%s", why.text);
	}
	leak_input_release(&input);
	return status == EXIT_UNJUDGED ? EXIT_DONE : status;
}

/* As `leaks` does: of all snapshots that were given, before they are thinned out. */
static int judge_report_series(struct report_job *job)
{
	const struct series *series = &job->series;
	const char **path;
	int status = EXIT_DONE;

	if (!series_is_one_process(series)) {
		reason_set(&job->unjudged, 0, "the snapshots are of different processes");
	} else if (is_part_of_tracebacks(&job->chosen.engine.select)) {
		reason_set(&job->unjudged, 0, "blocks were chosen by size, age or thread, and leaks need all of a line");
	} else {
		path = calloc(series->item_nr, sizeof(*path));
		for (size_t i = 0; i < series->item_nr && path; i++)
			path[i] = series->item[i].path;
		status = path ? judge_paths(job, path) : log_failure("out of memory");
		free(path);
	}
	job->judgement.leaks = job->leaks;
	job->judgement.unjudged = job->unjudged.text;
	return status;
}

/* Two snapshots that were named are compared in that order, even if they are of different processes. */
static int choose_series(struct report_job *job, const struct arguments *args)
{
	int status = args->item_nr == 1 ? find_history(job, args->item[0]) : EXIT_DONE;

	if (!status && !job->series.item_nr)
		status = find_named_snapshots(job, args);
	if (status)
		return status;
	job->facts.kind = job->series.item_nr == 1 ? "one" : args->item_nr == 2 ? "diff" : "history";
	if (strcmp(job->facts.kind, "history"))
		return judge_report_series(job);
	if (series_sort(&job->series))
		return log_failure("out of memory");
	status = refuse_processes(job) ?: judge_report_series(job);
	if (!status && series_thin(&job->series, SERIES_MAX))
		status = log_failure("out of memory");
	return status;
}

/* ---- what a reader should know ---------------------------------------------------------------------------------- */

static int warn_of_one(struct report_job *job, const struct snapshot *snapshot)
{
	const char *filters = snapshot__metadata(snapshot, "filters");
	struct reason line;
	struct cost blocks;
	int err = 0;

	if (filters) {
		reason_set(&line, 0, "filtered, not the whole: %.400s", filters);
		err = report_warn(&job->facts, line.text);
	}
	if (!err && gap_warning(snapshot, &job->chosen.engine, "", &blocks, &line))
		err = report_warn(&job->facts, line.text);
	return err;
}

static int warn_of_comparison(struct report_job *job, const struct comparison *comparison)
{
	struct warnings warnings;
	struct reason unjudged;
	int err = 0;

	compare_warnings(comparison, &warnings);
	for (size_t i = 0; i < warnings.nr && !err; i++)
		err = report_warn(&job->facts, warnings.line[i]);
	if (err || !unrecorded_reason(comparison->old, comparison->new, &unjudged))
		return err;
	log_info("growth cannot be judged: %s", unjudged.text);
	return json_set(job->facts.question, "unjudged", json_clean_string(unjudged.text));
}

/* The same as `diff` says of the two. */
static int compare_ends(struct report_job *job, const struct snapshot *const both[2], struct reason *why)
{
	struct cost gap_blocks[2] = {};
	struct shared_names names = {};
	struct statistics *diff = NULL;
	const struct snapshot *named[2];
	int err = names_share(both, &names);

	if (err && err != -EFBIG)
		return err;
	named[0] = names.named[0] ?: both[0];
	named[1] = names.named[1] ?: both[1];
	err = snapshot_compare(named[0], named[1], &job->chosen.engine, &diff, why);
	if (!err) {
		const struct comparison comparison = {
			named[0], named[1], .diff = diff, .gap_blocks = gap_blocks, .options = &job->chosen.engine,
			.unnamed = { { names.unshared[0].path, names.unshared[0].place_nr },
				     { names.unshared[1].path, names.unshared[1].place_nr } },
		};

		err = warn_of_comparison(job, &comparison);
	}
	statistics_free(diff);
	snapshot__close(names.named[0]);
	snapshot__close(names.named[1]);
	return err;
}

/* --include that matches nothing is a mistake. */
static int check_matches(struct report_job *job, const struct snapshot *const *snapshot, size_t snapshot_nr)
{
	const struct select_options *select = &job->options->select;

	return log_unmatched(select, &job->chosen, snapshot, snapshot_nr).includes ? EXIT_FAILED : EXIT_DONE;
}

static int judge_ends(struct report_job *job)
{
	const struct series *series = &job->series;
	struct reason why = { "out of memory" };
	struct snapshot *last = snapshot__open(series->item[series->item_nr - 1].path, &why);
	struct snapshot *first = series->item_nr > 1 && last ? snapshot__open(series->item[0].path, &why) : NULL;
	const struct snapshot *const both[] = { first, last };
	int status = EXIT_FAILED, err = 0;

	if (last && (first || series->item_nr == 1)) {
		err = first ? compare_ends(job, both, &why) : warn_of_one(job, last);
		status = err ? EXIT_FAILED : check_matches(job, first ? both : both + 1, first ? 2 : 1);
	}
	if (err || !last || (series->item_nr > 1 && !first))
		log_info("%s", why.text);
	snapshot__close(first);
	snapshot__close(last);
	return status;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static int make_report(struct report_job *job)
{
	const struct report_request request = { .engine = &job->chosen.engine, .source_dir = job->options->source_dir };
	struct reason why = { "out of memory" };
	struct report_data data = {};
	int status = judge_ends(job);

	if (status)
		return status;
	if (build_report(&job->series, &request, &data, &job->facts.newer_nr, &why))
		status = log_failure("%s", why.text);
	if (!status && report_add_leaks(&data, &job->judgement, &job->chosen.engine, &why))
		status = log_failure("%s", why.text);
	job->facts.given_nr = job->series.given_nr;
	job->facts.shown_nr = job->series.item_nr;
	status = status ?: report_output_write(job->options->output, &data, &job->facts);
	report_data_release(&data);
	return status;
}

/* ---- the command ---------------------------------------------------------------------------------------------- */

#define FIELD(name) offsetof(struct report_options, name)

static const struct option_row rows[] = {
	{ "output", 'o', OPTION_STRING, FIELD(output),
	  .arg = "OUT", .help = "write OUT, completely or not at all; - is standard output" },
	{ "source", 0, OPTION_STRING, FIELD(source_dir),
	  .arg = "DIR", .help = "put the source lines around own frames into the report, from files below DIR that were not "
				"changed since the recording began" },
	{},
};

static int check_report_options(const struct report_options *options)
{
	int status = report_output_check(&cmd_report, options->output);

	return status || !options->source_dir ? status : check_source_folder(options->source_dir);
}

static int run(const void *command_options, const struct arguments *args)
{
	struct report_job job = { .options = command_options };
	int status = check_report_options(job.options) ?: report_facts_init(&job.facts, &job.options->select);

	status = status ?: select_options_resolve(&cmd_report, &job.options->select, &job.chosen);
	status = status ?: choose_series(&job, args) ?: make_report(&job);
	report_facts_release(&job.facts);
	report_series_release(&job.series);
	leaks_free(job.leaks);
	chosen_release(&job.chosen);
	return status ?: job.damaged_nr ? EXIT_FAILED : EXIT_DONE;
}

const struct command cmd_report = {
	.name = "report",
	.args = "SNAP… -o OUT.html",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "write an HTML page to look at: a snapshot, a diff or a history",
	.detail = "The page is one file that needs no network and no other file: a history with what grows, a table of "
		  "sites, and tracebacks as a picture. One snapshot is shown as it is. Two are compared. More, or a folder, "
		  "a PID or a COMM, are the history of one process; of more than 120 snapshots the first, the last and "
		  "those taken for an event are shown, and others evenly.\n\n"
		  "The page has the verdicts of 'allocsnap leaks' about the same snapshots.\n\n"
		  "The page has at most about 1.5 MB. If there are too many tracebacks, small ones are merged by line; the "
		  "page says how many. Sums of lines stay exact; cumulative sums of callers lack what was merged. If there are "
		  "too many lines, small ones are merged into one.\n\n"
		  FIND_SNAPSHOT_DETAIL "\n" SELECT_DETAIL,
	.example = "allocsnap report redis-server -o redis.html",
	.option = { { rows, 0, "Output" }, SELECT_GROUPS(FIELD(select)) },
	.options_size = sizeof(struct report_options),
	.run = run,
};
