// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap leaks: which lines of a process leak, from its snapshots, or after watching it for a while. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive/walk.h"
#include "base/clock.h"
#include "base/reason.h"
#include "cli/cmd_attach.h"
#include "cli/cmd_fleet.h"
#include "cli/cmd_select.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "cli/leak_input.h"
#include "cli/leak_watch.h"
#include "cli/open_input.h"
#include "cli/pager.h"
#include "render.h"
#include "render/leak_answer.h"
#include "snapshot.h"

/* ---- options -------------------------------------------------------------------------------- */

struct leaks_options {
	struct select_options select;
	struct capture_options capture;
	uint64_t watch_ns, last_ns, top;
	bool shows_all, is_verbose, is_json;
	struct leak_limit limit;
};

extern const struct command cmd_leaks;

#define FIELD(name) offsetof(struct leaks_options, name)

static const struct option_row observe_rows[] = {
	{ "for", 0, OPTION_DURATION, FIELD(watch_ns), .arg = "TIME", .least = 4000000000,
	  .help = "with a PID: observe it for TIME, longer than its caches and pools take to fill", .rank = 1 },
	{ "last", 0, OPTION_DURATION, FIELD(last_ns), .arg = "TIME",
	  .help = "with snapshots: judge only the last TIME of the recording", .rank = 2 },
	{},
};

static const struct option_row leak_report_rows[] = {
	{ "top", 'n', OPTION_COUNT, FIELD(top), .most = UINT32_MAX, .arg = "N",
	  .help = "show the first N leaks; 0 shows all", .rank = 3 },
	{ "all", 'a', OPTION_FLAG, FIELD(shows_all), .rank = 4,
	  .help = "also show lines that do not leak, with the reason" },
	{ "verbose", 'v', OPTION_FLAG, FIELD(is_verbose), .help = "show whole tracebacks", .rank = 5 },
	{ "json", 'j', OPTION_FLAG, FIELD(is_json), .help = "write the report as JSON", .rank = 6 },
	{ "fail-above", 0, OPTION_CUSTOM, FIELD(limit), .arg = "RATE", .parse = leak_limit_parse, .rank = 7,
	  .help = "exit with status 4 if the lines that LEAK, together, leak more than RATE: 0, 64K/min, 1M/h" },
	{},
};

/* ---- the answer ----------------------------------------------------------------------------- */

/* Rates that are shown exceed the limit, whatever cannot be judged. */
static int answer_status(const struct leaks_options *options, const struct leak_answer *answer)
{
	if (!answer->is_void && leak_limit_is_exceeded(&options->limit, leaks_limited_rate(answer->leaks)))
		return EXIT_EXCEEDED;
	return answer->unjudged ? EXIT_UNJUDGED : EXIT_DONE;
}

static int print_leaks(const struct leaks_options *options, const struct chosen *chosen, const struct leaks *leaks)
{
	const struct snapshot *const last[] = { leaks->last };
	enum leak_unjudged unjudged = leaks_find_unjudged(leaks);
	char text[LEAK_UNJUDGED_MAX];
	struct leak_answer answer = {
		.leaks = leaks,
		.unjudged = leak_unjudged_text(text, unjudged, leaks),
		.is_void = leak_unjudged_is_void(unjudged),
		.shows_all = options->shows_all,
		.is_verbose = options->is_verbose,
		.top = options->top,
	};
	int status;

	if (log_snapshot_losses(leaks->last))
		return log_failure("%s", strerror(ENOMEM));
	log_unmatched(&options->select, chosen, last, 1);
	pager_begin();
	status = report_write_error(leaks_put(stdout, &answer, options->is_json));
	return status ?: answer_status(options, &answer);
}

static int judge_folders(const struct leaks_options *options, const char *const *path, size_t path_nr)
{
	return folders_leaks(&(struct folders_question){
		.folder = path, .folder_nr = path_nr, .select = &options->select, .last_ns = options->last_ns,
		.top = options->top, .shows_all = options->shows_all, .full_names = options->is_verbose,
		.is_json = options->is_json, .limit = &options->limit,
	});
}

static int judge_files(const struct leaks_options *options, const struct chosen *chosen, const char *const *path,
		       size_t path_nr)
{
	const struct leak_choice choice = { .last_ns = options->last_ns };
	struct reason why = { "out of memory" };
	struct leaks *leaks = NULL;
	struct leak_input input;
	int status = leak_input_choose(path, path_nr, &choice, &input);

	if (!status && input.has_several) {
		leak_input_release(&input);
		return judge_folders(options, path, path_nr);
	}
	if (!status && leaks_find(&input.recording, &chosen->engine, &leaks, &why))
		status = log_failure("%s", why.text);
	status = status ?: print_leaks(options, chosen, leaks);
	leaks_free(leaks);
	leak_input_release(&input);
	return status;
}

/* The snapshots of a process are in one folder, and each child has another one. */
static bool is_one_folder(const struct snapshot_paths *paths)
{
	size_t bytes = strrchr(paths->path[0], '/') - paths->path[0] + 1;

	for (size_t i = 1; i < paths->path_nr; i++)
		if (strncmp(paths->path[i], paths->path[0], bytes) || strchr(paths->path[i] + bytes, '/'))
			return false;
	return true;
}

static int judge_watched(const struct leaks_options *options, const struct chosen *chosen, const struct leak_watch *watch)
{
	const struct snapshot_paths *paths = &watch->paths;
	const char *const *path = (const char *const *)paths->path;

	return watch->process_nr > 1 || !is_one_folder(paths) ? judge_folders(options, path, paths->path_nr) :
								judge_files(options, chosen, path, paths->path_nr);
}

static int watch_processes(const struct leaks_options *options, const struct chosen *chosen, const struct arguments *args)
{
	struct leak_watch watch;
	int status = leak_watch_record(&cmd_leaks, &options->capture, args, options->watch_ns, &watch);

	status = status ?: judge_watched(options, chosen, &watch);
	if (watch.is_something_left)
		status = EXIT_FAILED;
	leak_watch_release(&watch);
	return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

static const struct leaks_options leaks_defaults = {
	.capture.recording = { .is_compact = true },
	.watch_ns = 60 * SECOND_NS,
	.top = 10,
};

/* Finds the snapshots of processes that are named; files and folders stay as they are. */
static int find_leak_snapshots(const struct arguments *args, struct snapshot_paths *paths)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < args->item_nr && !status; i++) {
		if (!is_input_path(args->item[i]))
			status = find_all_snapshots(args->item[i], paths);
		else if (snapshot_paths_add(paths, args->item[i]))
			status = log_failure("%s", strerror(ENOMEM));
	}
	return status;
}

static int judge_snapshots(const struct leaks_options *options, const struct chosen *chosen,
			   const struct arguments *args)
{
	struct snapshot_paths paths = {};
	int status = find_leak_snapshots(args, &paths);

	status = status ?: judge_files(options, chosen, (const char *const *)paths.path, paths.path_nr);
	snapshot_paths_release(&paths);
	return status;
}

static int check_leaks_arguments(const struct leaks_options *options, const struct arguments *args,
				 bool *ret_is_process)
{
	size_t nr = 0;

	for (size_t i = 0; i < args->item_nr; i++)
		nr += names_process(args->item[i]);
	*ret_is_process = nr;
	if (nr && nr < args->item_nr)
		return log_refusal(&cmd_leaks, "PIDs and NAMEs, or snapshots and folders of them");
	if (nr && options->last_ns)
		return log_refusal(&cmd_leaks, "--last goes with snapshots; --for says how long a process is observed");
	if (!nr && memcmp(&options->capture, &leaks_defaults.capture, sizeof(options->capture)))
		return log_refusal(&cmd_leaks, "options of recording go with a PID, not with snapshots");
	if (!nr && options->watch_ns != leaks_defaults.watch_ns)
		return log_refusal(&cmd_leaks, "--for goes with a PID; --last chooses the end of a recording");
	return EXIT_DONE;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct leaks_options *options = command_options;
	struct chosen chosen = {};
	bool is_pid;
	int status = check_leaks_arguments(options, args, &is_pid);

	status = status ?: select_options_resolve(&cmd_leaks, &options->select, &chosen);
	if (!status && is_pid)
		status = watch_processes(options, &chosen, args);
	else if (!status)
		status = judge_snapshots(options, &chosen, args);
	chosen_release(&chosen);
	return status;
}

const struct command cmd_leaks = {
	.name = "leaks",
	.args = "PID… | NAME… | FOLDER… | SNAP…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "name the lines that leak: observe a process, or judge its snapshots",
	.detail = "Running processes, by PID or NAME, are recorded for the time of --for, with 12 snapshots. In a "
		  "FOLDER, the newest recording is judged; with several folders below it, the newest one of each "
		  "process, as 'fleet leaks' does it. COMM.PID is a folder below ./allocsnap-data. Of running processes nothing "
		  "is kept without -o DIR.\n"
		  "If no option says what to record, or how, a process that takes samples itself is recorded by these, a busy "
		  "Python by its pools and larger objects (--sample pools,large), and any other process by traps, every block. A line says why, and "
		  "names --inject if that would work: nothing is put into a process without this option.\n"
		  "A line LEAKS if its blocks were born all along, until now, and beyond some age hardly any was freed. It "
		  "MAY LEAK if there are doubts, which it names. Nobody can know from outside whether blocks that were "
		  "never freed in 60 s are freed after 70: observe for longer than the program's caches and pools take to fill.\n\n"
		  "Exit status: 0 if all could be judged, whether or not something leaks; 1 after a failure, or if something "
		  "of an injected sampler stays; 2 for an invalid command line; 3 if it cannot be judged (gaps, losses, growth "
		  "in no traced block, fewer than four snapshots); 4 if more leaks than --fail-above allows.\n\n"
		  SUPPRESSIONS_DETAIL "\n\n" SELECT_DETAIL PROBE_DETAIL,
	.brief = "With a PID, nothing is kept without -o DIR. Exit status: 0 if all could be judged, whether or not something "
		 "leaks; 1 after a failure; 3 if it cannot be judged; 4 if more leaks than --fail-above allows.\n",
	.example = "sudo allocsnap leaks 4711 --for 60s",
	.option = {
		{ observe_rows, 0, "What to observe" },
		{ leak_report_rows, 0, "Report" },
		{ filter_rows, FIELD(select), "Filters" },
		{ suppression_rows, FIELD(select), "Filters" },
		{ wrapper_rows, FIELD(select), "Own frames" },
		{ capture_output_rows, FIELD(capture), "Recording of a PID" },
		{ capture_what_rows, FIELD(capture), "Recording of a PID" },
		{ capture_children_rows, FIELD(capture), "Recording of a PID" },
		{ capture_stack_rows, FIELD(capture), "Recording of a PID" },
		{ capture_cost_rows, FIELD(capture), "Recording of a PID" },
		{ capture_inject_rows, FIELD(capture), "Recording of a PID" },
	},
	.defaults = &leaks_defaults,
	.options_size = sizeof(struct leaks_options),
	.pages = true,
	.run = run,
};
