// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "cli/open_input.h"
#include "render.h"
#include "render/caveats.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"
#include "symbolize/share_names.h"

struct diff_options {
	struct stats_options stats;
	enum sort_order sort;
	struct said fail_above; /* bytes */
};

static int parse_growth_limit(const char *text, void *field, struct reason *why)
{
	struct said *said = field;

	if (parse_size(text, &said->value))
		return reason_set(why, -EINVAL, "'%.100s' is not a size such as 0, 64K, 1M or 1G", text);
	said->text = text;
	return 0;
}

static const struct option_row rows[] = {
	{ "sort", 's', OPTION_CUSTOM, offsetof(struct diff_options, sort), .parse = parse_sort_order,
	  .choice = sort_order_choice, .arg = "ORDER", .default_text = "abs", .help = "what comes first" },
	{ "fail-above", 0, OPTION_CUSTOM, offsetof(struct diff_options, fail_above), .parse = parse_growth_limit,
	  .arg = "SIZE",
	  .help = "exit with status 4 if the chosen blocks together grew by more than SIZE: 0, 64K, 1M" },
	{},
};

/* Warnings also go to stderr: a program may read the JSON, while a person reads stderr. */
static void log_warnings(const struct warnings *warnings)
{
	for (size_t i = 0; i < warnings->nr; i++) {
		const char *line = warnings->line[i];

		log_cut("%s%s", strncmp(line, "hint: ", 6) ? "warning: " : "", line);
	}
}

/* The engine's reason does not name the snapshot that lacks the requested data, so this finds it out. */
static int log_engine_failure(char *const path[2], const struct snapshot *old,
			      const struct engine_options *engine, int err,
			      const struct reason *why)
{
	struct statistics *statistics = NULL;
	bool is_old;

	if (err != -ENODATA)
		return log_failure("%s", why->text);
	is_old = snapshot_statistics(old, engine, &statistics, NULL) == -ENODATA;
	statistics_free(statistics);
	return log_failure("%s: %s", path[is_old ? 0 : 1], why->text);
}

/* Blocks that may be gone look like growth, so with them --fail-above has no answer. */
static int growth_status(const struct diff_options *options, const struct report *report)
{
	int64_t grown = report->statistics->total_diff.size;

	if (report->unjudged)
		return EXIT_UNJUDGED;
	if (!options->fail_above.text)
		return EXIT_DONE;
	if (report->gap_blocks[0].count || report->gap_blocks[1].count) {
		log_info("--fail-above cannot be judged: blocks lived through gaps in the recording, and may be gone");
		return EXIT_UNJUDGED;
	}
	return grown > 0 && (uint64_t)grown > options->fail_above.value ? EXIT_EXCEEDED : EXIT_DONE;
}

static int print_diff(const struct diff_options *options, const struct chosen *chosen,
		      char *const path[2], const struct snapshot *const both[2],
		      const struct shared_names *names)
{
	struct comparison comparison = {
		both[0], both[1], .options = &chosen->engine,
		.unnamed = { { names->unshared[0].path, names->unshared[0].place_nr },
			     { names->unshared[1].path, names->unshared[1].place_nr } },
	};
	struct report report = { .snapshot = both, .snapshot_nr = 2 };
	struct statistics *statistics = NULL;
	struct reason why = { "out of memory" };
	struct warnings warnings;
	struct reason unjudged;
	int status, err;

	err = snapshot_compare(both[0], both[1], &chosen->engine, &statistics, &why);
	if (err)
		return log_engine_failure(path, both[0], &chosen->engine, err, &why);
	comparison.diff = statistics;
	comparison.gap_blocks = report.gap_blocks;
	compare_warnings(&comparison, &warnings);
	log_warnings(&warnings);
	report.statistics = statistics;
	report.warning = warnings.line;
	report.warning_nr = warnings.nr;
	if (unrecorded_reason(both[0], both[1], &unjudged)) {
		report.unjudged = unjudged.text;
		if (options->stats.output || format_or_text(options->stats.format) != format_or_text(NULL))
			log_info("cannot be judged: %s", unjudged.text); /* the text on stdout begins with it */
	}
	status = print_report(&options->stats, chosen, &report) ?: growth_status(options, &report);
	if (format_or_text(options->stats.format) == format_or_text(NULL))
		status = report_write_error(render_rss_diff(stdout, both[0], both[1])) ?: status;
	statistics_free(statistics);
	return status;
}

/* Both get the names that one of them has, because rows are compared by their names. */
static int share_and_print(const struct diff_options *options, const struct chosen *chosen,
			   char *const path[2], const struct snapshot *const both[2])
{
	struct shared_names names;
	int err = names_share(both, &names);
	const struct snapshot *const named[] = { names.named[0] ?: both[0], names.named[1] ?: both[1] };
	int status;

	if (err)
		return log_failure("%s: %s", path[0], err == -EFBIG ?
				   "with the names of the other snapshot it would have too many frames" :
				   strerror(-err));
	status = print_diff(options, chosen, path, named, &names);
	snapshot__close(names.named[0]);
	snapshot__close(names.named[1]);
	return status;
}

static int open_and_print(const struct diff_options *options, const struct chosen *chosen, char *const path[2])
{
	struct snapshot *old = open_snapshot(path[0]);
	struct snapshot *new = open_snapshot(path[1]);
	const struct snapshot *both[] = { old, new };
	int status = EXIT_FAILED;

	if (old && new)
		status = share_and_print(options, chosen, path, both);
	snapshot__close(old);
	snapshot__close(new);
	return status;
}

#define ONE_SNAPSHOT "%s is one snapshot, and diff compares two: "

/* The text names a file, or with WHICH one snapshot of a process. */
static int refuse_one_snapshot(const char *text)
{
	const char *at = strrchr(text, '@'), *which = at ? at + 1 : text;
	int place = at ? (int)(which - text) : 0;

	if (is_input_path(text) || !is_which_snapshot(which))
		return log_refusal(&cmd_diff, ONE_SNAPSHOT "allocsnap diff %s NEW.snap", text, text);
	if (!strcmp(which, "first"))
		return log_refusal(&cmd_diff, ONE_SNAPSHOT "allocsnap diff %s %.*slatest", text, text, place, text);
	return log_refusal(&cmd_diff, ONE_SNAPSHOT "allocsnap diff %.*sfirst %s", text, place, text, text);
}

/* Returns what all snapshots of one recording have in common. The caller frees it. NULL: it failed, and was logged. */
static char *read_recording(const char *path)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(path, &why);
	char *recording = snapshot ? snapshot_identity(snapshot, IDENTITY_RECORDING) : NULL;

	snapshot__close(snapshot);
	if (!recording)
		log_failure("%s", why.text);
	return recording;
}

/* Recordings follow each other, so the latest one is the end of the list. Returns an exit status. */
static int find_latest_recording(const struct snapshot_paths *paths, size_t *ret_first)
{
	char *latest = read_recording(paths->path[paths->path_nr - 1]);
	size_t from = 0, to = paths->path_nr - 1, at = 0; /* its first snapshot is in from … to */
	int status = latest ? EXIT_DONE : EXIT_FAILED;

	while (!status && from < to) {
		char *recording = read_recording(paths->path[at]);

		if (!recording)
			status = EXIT_FAILED;
		else if (strcmp(recording, latest))
			from = at + 1;
		else
			to = at;
		free(recording);
		at = from + (to - from) / 2;
	}
	free(latest);
	*ret_first = from;
	return status;
}

static void log_compared(const struct snapshot_paths *paths, size_t first)
{
	const char *last = paths->path[paths->path_nr - 1];

	log_info("comparing %s, the first of %zu, with", paths->path[first], paths->path_nr - first);
	log_info("%s, the latest", last);
	if (first)
		log_info("%zu snapshot%s of earlier recordings %s left out; to compare over all: allocsnap diff %s %s",
			 first, first == 1 ? "" : "s", first == 1 ? "is" : "are", paths->path[0], last);
}

static int choose_first_and_last(struct snapshot_paths *paths, char *ret_path[2])
{
	const char *last = paths->path[paths->path_nr - 1];
	size_t first = 0;
	int status = find_latest_recording(paths, &first);

	if (!status && paths->path_nr == 1)
		return log_failure("%s: the only snapshot: nothing to compare it with", last);
	if (!status && first + 1 == paths->path_nr)
		return log_failure("%s: the only snapshot of the latest recording; to compare it with an earlier one: "
				   "allocsnap diff %s %s", last, paths->path[first - 1], last);
	if (status)
		return status;
	log_compared(paths, first);
	ret_path[0] = paths->path[first];
	ret_path[1] = paths->path[--paths->path_nr];
	paths->path[first] = NULL;
	return EXIT_DONE;
}

/* The first and the last snapshot of a process, of its latest recording. */
static int find_first_and_last(const char *text, char *ret_path[2])
{
	struct snapshot_paths paths;
	int status = find_process_snapshots(text, &paths);

	if (!status && !paths.path_nr)
		status = refuse_one_snapshot(text);
	status = status ?: choose_first_and_last(&paths, ret_path);
	snapshot_paths_release(&paths);
	return status;
}

static int find_both(const struct arguments *args, char *ret_path[2])
{
	if (args->item_nr == 1)
		return find_first_and_last(args->item[0], ret_path);
	return find_snapshot(args->item[0], &ret_path[0]) ?: find_snapshot(args->item[1], &ret_path[1]);
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct diff_options *options = command_options;
	struct chosen chosen;
	char *path[2] = {};
	int status = stats_question(&cmd_diff, &options->stats, &chosen) ?:
		     check_diff_format(&cmd_diff, &options->stats);

	chosen.engine.sort = options->sort;
	status = status ?: find_both(args, path) ?: open_and_print(options, &chosen, path);
	free(path[0]);
	free(path[1]);
	chosen_release(&chosen);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.args = "OLD NEW",
	.arg_min = 1,
	.arg_max = 2,
	.help = "compare two snapshots: what grew and what shrank",
	.detail = "Lines have tracemalloc's form: size=NEW (NEW - OLD). The folded format has what grew; with --sort "
		  "shrink it has what shrank. If only one of the snapshots has the names of a file, the other one gets "
		  "them, too, if its file is of the same build.\n\n"
		  "OLD and NEW are snapshot files, or name snapshots like SNAP of 'allocsnap stats'. A folder of one "
		  "process, a PID or a COMM alone compares the first snapshot of its latest recording with the latest:\n"
		  "  allocsnap diff redis-server\n"
		  "  allocsnap diff redis-server@-2 redis-server\n\n"
		  "With --fail-above the exit status is 4 if there is more growth than allowed, and 3 if gaps in the "
		  "recording forbid an answer.\n\n"
		  SUPPRESSIONS_DETAIL "\n\n"
		  "If nothing was recorded for a time between the two (--max-overhead, or two recordings), the first "
		  "line says that growth cannot be judged, and the exit status is 3.\n\n"
		  SELECT_DETAIL,
	.example = "allocsnap diff old.snap new.snap --group-by function --top 20",
	.option = { { rows, 0, "Report" }, STATS_GROUPS(offsetof(struct diff_options, stats)),
		    { suppression_rows, offsetof(struct diff_options, stats.select), "Filters" },
		    SELECT_GROUPS(offsetof(struct diff_options, stats.select)) },
	.defaults = &(const struct diff_options){ .stats = { STATS_DEFAULTS } },
	.options_size = sizeof(struct diff_options),
	.pages = true,
	.run = run,
};
