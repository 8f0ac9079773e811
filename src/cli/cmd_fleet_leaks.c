// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "cli/leak_input.h"
#include "cli/pager.h"
#include "cli/temporary_folder.h"
#include "fleet/leaks.h"
#include "fleet/per_host.h"
#include "render/fleet.h"

/* ---- options ------------------------------------------------------------------------------ */

struct fleet_leaks_options {
	struct fleet_options fleet; /* the first member: the lists of a fleet are given only this */
	uint64_t last_ns;
	bool shows_all;
	struct leak_limit limit;
};

#define FIELD(name) offsetof(struct fleet_leaks_options, name)

static const struct option_row fleet_last_rows[] = {
	{ "last", 0, OPTION_DURATION, FIELD(last_ns), .arg = "TIME",
	  .help = "judge only the last TIME of each recording" },
	{},
};

static const struct option_row fleet_leak_rows[] = {
	{ "top", 'n', OPTION_COUNT, FIELD(fleet.stats.top), .most = UINT32_MAX,
	  .arg = "N", .default_text = "10", .help = "show the first N rows; 0 shows all" },
	{ "all", 'a', OPTION_FLAG, FIELD(shows_all), .help = "also show lines that do not leak, with the reason" },
	{ "full-names", 'v', OPTION_FLAG, FIELD(fleet.stats.full_names),
	  .help = "print functions with parameters and all template arguments, and do not cut rows to the terminal" },
	{ "json", 'j', OPTION_CUSTOM, FIELD(fleet.stats.format), .parse = parse_json,
	  .help = "print one JSON object" },
	{ "fail-above", 0, OPTION_CUSTOM, FIELD(limit), .arg = "RATE", .parse = leak_limit_parse,
	  .help = "exit with status 4 if the lines that LEAK, together, leak more than RATE: 0, 64K/min, 1M/h" },
	{},
};

/* ---- the answer ----------------------------------------------------------------------------- */

static void report_files(const struct fleet_leaks *leaks)
{
	if (leaks->gone_nr)
		log_info("%zu snapshot%s no file any more: not judged", leaks->gone_nr, leaks->gone_nr == 1 ? " has" : "s have");
	if (leaks->unjudged_nr[FLEET_UNJUDGED_CHANGED])
		log_info("%s; 'allocsnap fleet index' brings new files into the catalogue", leaks->why.text);
}

/* Rates that are sure exceed the limit, whatever cannot be judged. */
static int fleet_leaks_status(const struct fleet_leaks_options *options, const struct fleet_leaks *leaks)
{
	if (leak_limit_is_exceeded(&options->limit, fleet_leaks_limited_rate(leaks)))
		return EXIT_EXCEEDED;
	return fleet_leaks_unjudged(leaks) ? EXIT_UNJUDGED : EXIT_DONE;
}

static int print_fleet_leaks(const struct fleet *fleet, struct fleet_answer *answer, const struct fleet_leaks *leaks,
			     bool is_json)
{
	const struct fleet_leaks_options *options = (const struct fleet_leaks_options *)fleet->options;
	int status;

	report_files(leaks);
	answer->leaks = leaks;
	answer->shows_all = options->shows_all;
	pager_begin();
	status = report_write_error(fleet_put_leaks(stdout, answer, is_json));
	return status ?: fleet_leaks_status(options, leaks);
}

static void show_leaks_progress(void *progress_, uint64_t process_nr, uint64_t process_all)
{
	struct progress *progress = progress_;

	progress->all = process_all;
	progress_show(progress, process_nr);
}

/* The catalogue is closed before files are read: that may take long, and `fleet index` waits for it. */
static int list_leaks(struct fleet *fleet, const struct fleet_question *question, struct fleet_answer *answer,
		      bool is_json)
{
	struct engine_options engine = fleet->chosen.engine;
	struct progress progress = progress_begin("judging", "processes", 0);
	struct line_groups lines = {};
	const struct fleet_leaks_question judged = {
		.cohort = question->cohort,
		.groups = question->groups,
		.lines = &lines,
		.engine = &engine,
		.last_ns = ((const struct fleet_leaks_options *)fleet->options)->last_ns,
		.progress = show_leaks_progress,
		.progress_what = &progress,
	};
	struct fleet_leaks leaks = {};
	int status = EXIT_DONE;

	engine.key_frame = NULL; /* it is the dictionary's */
	if (line_groups_make(question->groups, fleet->dictionary.traceback_id, fleet->facts.origin_nr, &lines))
		status = log_failure("out of memory");
	fleet_let_go(fleet);
	if (!status && fleet_find_leaks(&judged, &leaks))
		status = log_failure("out of memory");
	progress_end(&progress);
	status = status ?: print_fleet_leaks(fleet, answer, &leaks, is_json);
	fleet_leaks_release(&leaks);
	line_groups_release(&lines);
	return status;
}

static const struct fleet_list leaks_list = { &cmd_fleet_leaks, COHORT_ALL, list_leaks, .reads_files = true };

static int run(const void *options, const struct arguments *args)
{
	(void)args;
	return fleet_list_run(&leaks_list, options);
}

static int ask_folders(const struct folders_question *question, const char *catalogue)
{
	struct fleet_leaks_options options = {
		.fleet = { FLEET_DEFAULTS }, .last_ns = question->last_ns, .shows_all = question->shows_all,
		.limit = *question->limit,
	};
	bool is_whole;
	int status = index_folders(catalogue, question->folder, question->folder_nr, &is_whole);

	options.fleet.catalogue = catalogue;
	options.fleet.stats.select = *question->select;
	options.fleet.stats.top = question->top;
	options.fleet.stats.full_names = question->full_names;
	if (question->is_json)
		parse_json(NULL, &options.fleet.stats.format, NULL);
	status = status ?: fleet_list_run(&leaks_list, &options.fleet);
	return status || is_whole ? status : EXIT_FAILED;
}

int folders_leaks(const struct folders_question *question)
{
	struct temporary_folder folder = {};
	char *catalogue = NULL;
	int status = temporary_folder_make("leaks", &folder);

	if (!status && asprintf(&catalogue, "%s/catalogue.db", folder.path) < 0)
		status = log_failure("out of memory");
	status = status ?: ask_folders(question, catalogue);
	temporary_folder_remove(&folder);
	free(catalogue);
	return status;
}

const struct command cmd_fleet_leaks = {
	.name = "fleet leaks",
	.args = "",
	.help = "name the lines that leak, and on how many hosts and in how many processes",
	.detail = "Each process is judged as 'allocsnap leaks FOLDER' judges it, by the births of its blocks. These are "
		  "in the snapshot files, which must still be where they were indexed. If a process was "
		  "recorded several times, its newest recording counts, with at most 12 snapshots. A row has the "
		  "worst verdict that a line has in any process, and the rate of all processes that have this "
		  "verdict; lines that leak together in nearly all processes are one row.\n\n"
		  "Exit status: 0 if all processes could be judged, whether or not something leaks; 1 after a failure; "
		  "2 for an invalid command line; 3 if a process cannot be judged (gaps, losses, growth in no "
		  "traced block, fewer than four snapshots, files that are gone); 4 if more leaks than --fail-above allows.\n\n"
		  SELECTION_DETAIL "\n\n" SUPPRESSIONS_DETAIL "\n\n" SELECT_DETAIL,
	.example = "allocsnap fleet leaks --where comm=shopd",
	.option = {
		{ source_rows, FIELD(fleet), "Which snapshots" },
		{ where_rows, FIELD(fleet), "Which snapshots" },
		{ fleet_last_rows, 0, "Which snapshots" },
		{ fleet_leak_rows, 0, "Report" },
		{ names_rows, FIELD(fleet), "Report" },
		{ filter_rows, FIELD(fleet.stats.select), "Filters" },
		{ suppression_rows, FIELD(fleet.stats.select), "Filters" },
		{ wrapper_rows, FIELD(fleet.stats.select), "Own frames" },
	},
	.defaults = &(const struct fleet_leaks_options){ .fleet = { FLEET_DEFAULTS } },
	.options_size = sizeof(struct fleet_leaks_options),
	.pages = true,
	.run = run,
};
