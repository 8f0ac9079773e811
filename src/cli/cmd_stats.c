// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_stats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_replace.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/find_snapshot.h"
#include "cli/open_input.h"
#include "cli/pager.h"
#include "engine/told_samples.h"
#include "render.h"
#include "render/caveats.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/page_facts.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

/* ---- options ------------------------------------------------------------------------------ */

int parse_key_type(const char *text, void *field, struct reason *why)
{
	return key_type_parse(text, field, why);
}

bool key_type_choice(size_t at, struct option_choice *ret)
{
	if (at >= KEY_TYPE_NR)
		return false;
	*ret = (struct option_choice){ .name = key_type_name(at) };
	return true;
}

static bool measure_choice(size_t at, struct option_choice *ret)
{
	static const char *const help[MEASURE_NR] = {
		[MEASURE_LIVE] = "that are allocated now",
		[MEASURE_ALLOCATED] = "that were ever allocated",
		[MEASURE_TEMPORARY] = "that were freed before the next one was allocated",
	};

	if (at >= MEASURE_NR)
		return false;
	*ret = (struct option_choice){ measure_name(at), help[at] };
	return true;
}

bool sort_order_choice(size_t at, struct option_choice *ret)
{
	static const char *const help[SORT_ORDER_NR] = {
		[SORT_ABS] = "the largest change",
		[SORT_GROWTH] = "what grew most",
		[SORT_SHRINK] = "what shrank most",
	};

	if (at >= SORT_ORDER_NR)
		return false;
	*ret = (struct option_choice){ sort_order_name(at), help[at] };
	return true;
}

int parse_sort_order(const char *text, void *field, struct reason *why)
{
	return sort_order_parse(text, field, why);
}

static int parse_measure(const char *text, void *field, struct reason *why)
{
	return measure_parse(text, field, why);
}

int parse_format(const char *text, void *field, struct reason *why)
{
	const struct renderer *format = renderer_find(text, why);
	char removed[REMOVED_TEXT_MAX];

	if (!format && removed_word_format(removed, NULL, text, strlen(text)))
		return reason_set(why, -EINVAL, "%s", removed);
	if (!format)
		return -EINVAL;
	*(const struct renderer **)field = format;
	return 0;
}

int parse_json(const char *text, void *field, struct reason *why)
{
	(void)text;
	return parse_format("json", field, why);
}

static bool report_format_choice(size_t at, struct option_choice *ret)
{
	size_t nr;
	const struct renderer *table = renderer_table(&nr);

	if (at >= nr)
		return false;
	*ret = (struct option_choice){ table[at].name, table[at].help };
	return true;
}

#define FIELD(name) offsetof(struct stats_options, name)

const struct option_row group_rows[] = {
	{ "group-by", 'g', OPTION_CUSTOM, FIELD(key_type), .parse = parse_key_type,
	  .choice = key_type_choice,
	  .arg = "KEY", .help = "group blocks by KEY", .default_text = "lineno; traceback for folded, pprof" },
	{ "cumulative", 'c', OPTION_FLAG, FIELD(cumulative),
	  .help = "count a block for every frame of its traceback, once per call in a recursion" },
	{},
};

const struct option_row measure_rows[] = {
	{ "measure", 'm', OPTION_CUSTOM, FIELD(measure), .parse = parse_measure,
	  .choice = measure_choice, .arg = "M", .default_text = "live", .help = "add up blocks" },
	{},
};

const struct option_row output_rows[] = {
	{ "top", 'n', OPTION_COUNT, FIELD(top), .most = UINT32_MAX,
	  .arg = "N", .default_text = "10; all for folded, pprof", .help = "show the first N rows; 0 shows all" },
	{ "oldest-first", 0, OPTION_FLAG, FIELD(oldest_first),
	  .help = "print tracebacks in tracemalloc's order, oldest frame first" },
	{ "full-names", 'v', OPTION_FLAG, FIELD(full_names),
	  .help = "print functions with parameters and all template arguments, and do not cut rows to the terminal" },
	{ "source", 0, OPTION_STRING, FIELD(source_dir),
	  .arg = "DIR", .help = "show source lines, read from files below DIR" },
	{ "format", 'f', OPTION_CUSTOM, FIELD(format), .parse = parse_format,
	  .choice = report_format_choice, .arg = "F", .default_text = "text", .help = "write the report as" },
	{ "json", 'j', OPTION_CUSTOM, FIELD(format), .parse = parse_json,
	  .help = "the same as --format json" },
	{},
};

static const struct option_row at_peak_rows[] = {
	{ "at-peak", 0, OPTION_FLAG, FIELD(at_peak),
	  .help = "choose the snapshot with the most live bytes among several, or in folders" },
	{},
};

const struct renderer *format_or_text(const struct renderer *format)
{
	size_t nr;

	return format ?: renderer_table(&nr);
}

/* The key to group by, or its default if the command line has none. */
static enum key_type key_type_of(const struct stats_options *options)
{
	if (options->key_type != KEY_TYPE_UNSAID)
		return options->key_type;
	return options->cumulative ? KEY_LINENO : format_or_text(options->format)->key_type;
}

/* ---- options that contradict each other -------------------------------------------------- */

/* "lineno, filename or function": the key types that can be cumulative. */
static void name_cumulative(char *names, size_t room)
{
	const char *name[KEY_TYPE_NR];
	size_t nr = 0, len = 0;

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++)
		if (key_type_has_cumulative(i))
			name[nr++] = key_type_name(i);
	for (size_t i = 0; i < nr && len < room; i++)
		len += snprintf(names + len, room - len, "%s%s",
				!i ? "" : i + 1 == nr ? " or " : ", ", name[i]);
}

static int check_cumulative(const struct command *command, const struct stats_options *options)
{
	enum key_type key_type = key_type_of(options);
	char names[256] = "";

	if (!options->cumulative)
		return EXIT_DONE;
	if (!key_type_has_cumulative(key_type)) {
		name_cumulative(names, sizeof(names));
		return log_refusal(command, "--cumulative goes with --group-by %s, not %s", names,
				   key_type_name(key_type));
	}
	if (format_or_text(options->format)->key_type == KEY_TRACEBACK)
		return log_refusal(command, "--cumulative and --format %s exclude each other",
				   format_or_text(options->format)->name);
	return EXIT_DONE;
}

static int check_source_option(const struct command *command, const struct stats_options *options)
{
	const struct renderer *format = format_or_text(options->format);
	enum key_type key_type = key_type_of(options);

	if (!options->source_dir)
		return EXIT_DONE;
	if (format != format_or_text(NULL))
		return log_refusal(command, "--source goes with --format text, not %s",
				   format->name);
	if (key_type != KEY_LINENO && key_type != KEY_TRACEBACK)
		return log_refusal(command, "--source goes with --group-by lineno or traceback, "
					    "not %s", key_type_name(key_type));
	return check_source_folder(options->source_dir);
}

static int check_terminal(const struct command *command, const struct stats_options *options)
{
	const struct renderer *format = format_or_text(options->format);

	if (!format->is_binary || options->output || !isatty(STDOUT_FILENO))
		return EXIT_DONE;
	return log_refusal(command, "--format %s is not for a terminal; write it to a file: > FILE%s", format->name,
			   format->suffix);
}

int check_diff_format(const struct command *command, const struct stats_options *options)
{
	const struct renderer *format = format_or_text(options->format);

	if (!format->has_no_diff)
		return EXIT_DONE;
	return log_refusal(command, "--format %s has no negative numbers; write a file of each snapshot (allocsnap "
			   "convert SNAP -o FILE%s)%s", format->name, format->suffix,
			   format->is_binary ? " and compare these: go tool pprof -diff_base OLD NEW" : "");
}

int stats_question(const struct command *command, const struct stats_options *options,
		   struct chosen *ret)
{
	int status = select_options_resolve(command, &options->select, ret);
	struct reason why;

	status = status ?: check_cumulative(command, options);
	status = status ?: check_source_option(command, options) ?: check_terminal(command, options);
	ret->engine.key_type = key_type_of(options);
	ret->engine.cumulative = options->cumulative;
	ret->engine.measure = options->measure;
	if (!status && engine_options_check(&ret->engine, &why))
		status = log_refusal(command, "%s", why.text);
	return status;
}

/* ---- text out ----------------------------------------------------------------------------- */

int report_write_error(int err)
{
	if (!err)
		return EXIT_DONE;
	if (err == -EPIPE) /* who leaves the pager early has seen enough */
		return pager_is_on() ? EXIT_DONE : EXIT_FAILED;
	return log_failure("cannot write: %s", strerror(-err));
}

/* Folded stacks have one side of a diff only. */
static void log_changes_left_out(const struct renderer *format, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	bool is_shrinkage = report->engine->sort == SORT_SHRINK;
	char size[SIZE_TEXT_MAX];
	int64_t bytes = 0;
	size_t nr = 0;

	if (format->report != folded_put_report || !statistics->is_diff)
		return;
	for (size_t i = 0; i < statistics->statistic_nr; i++) {
		int64_t diff = statistics->statistic[i].diff.size;

		nr += is_shrinkage ? diff > 0 : diff < 0;
		bytes += (is_shrinkage ? diff > 0 : diff < 0) ? diff : 0;
	}
	if (nr)
		log_info("what %s (%s in %zu row%s) is not in folded stacks; --sort %s writes it", is_shrinkage ?
			 "grew" : "shrank", size_text(size, bytes, true), nr, nr == 1 ? "" : "s",
			 is_shrinkage ? "growth" : "shrink");
}

struct report_writing {
	const struct renderer *format;
	const struct report *report;
};

static int write_report(FILE *out, const void *what)
{
	const struct report_writing *writing = what;

	return writing->format->report(out, writing->report);
}

static int put_report(const struct stats_options *options, const struct report *report)
{
	const struct report_writing writing = { format_or_text(options->format), report };
	struct reason why = { "out of memory" };

	if (!options->output)
		return report_write_error(write_report(stdout, &writing));
	return file_replace(options->output, write_report, &writing, &why) ? log_failure("%s", why.text) : EXIT_DONE;
}

int print_report(const struct stats_options *options, const struct chosen *chosen,
		 struct report *report)
{
	const struct renderer *format = format_or_text(options->format);
	struct unmatched unmatched = log_unmatched(&options->select, chosen, report->snapshot, report->snapshot_nr);
	int status;

	if (!unmatched.nr && is_selecting(&options->select) && !report->statistics->statistic_nr)
		log_info("no block matches what was asked for");
	report->top = options->top == TOP_UNSAID ? format->top : options->top;
	report->oldest_first = options->oldest_first || options->select.tracemalloc;
	report->full_names = options->full_names;
	report->source_dir = options->source_dir;
	report->engine = &chosen->engine;
	for (size_t i = 0; i < chosen->engine.select.filter_nr; i++)
		report->has_domain_filter |= chosen->engine.select.filter[i].has_domain;
	log_changes_left_out(format, report);
	if (!options->output)
		pager_begin();
	status = put_report(options, report);
	return status ?: unmatched.includes ? EXIT_FAILED : EXIT_DONE;
}

/* ---- the snapshot with the most bytes ------------------------------------------------------- */

struct candidate {
	char *path;
	char *process; /* more than its PID, which the kernel reuses */
	char *when;
	uint64_t bytes, peak_bytes;
};

struct candidates {
	struct candidate *candidate;
	size_t candidate_nr, candidate_alloc;
	int status;
};

static void candidate_release(struct candidate *candidate)
{
	free(candidate->path);
	free(candidate->process);
	free(candidate->when);
}

static const char *get_peak_metadata(const struct snapshot *snapshot, const char *key)
{
	return snapshot__metadata(snapshot, key) ?: "";
}

/* ", taken 2026-11-21T03:15:00.123Z (peak)"; unknown parts are left out. */
static char *format_when(const struct snapshot *snapshot)
{
	const char *time = get_peak_metadata(snapshot, "wall_time"), *trigger = get_peak_metadata(snapshot, "trigger");
	char *text;

	return asprintf(&text, "%s%s%s%s%s", *time ? ", taken " : "", time, *trigger ? " (" : "",
			trigger, *trigger ? ")" : "") < 0 ? NULL : text;
}

static int add_candidate(struct candidates *all, const char *path, const struct snapshot *snapshot)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	struct candidate candidate = {
		.path = strdup(path),
		.process = snapshot_identity(snapshot, IDENTITY_IMAGE),
		.when = format_when(snapshot),
		.bytes = facts.current_bytes,
		.peak_bytes = facts.has_peak ? facts.peak_bytes : 0,
	};

	if (candidate.path && candidate.process && candidate.when &&
	    !array_push(all, candidate, candidate))
		return 0;
	candidate_release(&candidate);
	return -ENOMEM;
}

static void add_candidate_file(struct candidates *all, const char *path)
{
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = snapshot__open(path, &why);

	if (!snapshot || add_candidate(all, path, snapshot))
		all->status = log_failure("%s", why.text);
	snapshot__close(snapshot);
}

static const struct candidate *find_largest(const struct candidates *all)
{
	const struct candidate *most = all->candidate;

	for (size_t i = 1; i < all->candidate_nr; i++)
		if (all->candidate[i].bytes > most->bytes)
			most = &all->candidate[i];
	return most;
}

/* The highest peak that any snapshot of this process has. */
static uint64_t find_process_peak(const struct candidates *all, const struct candidate *of)
{
	uint64_t peak = 0;

	for (size_t i = 0; i < all->candidate_nr; i++)
		if (all->candidate[i].peak_bytes > peak &&
		    !strcmp(all->candidate[i].process, of->process))
			peak = all->candidate[i].peak_bytes;
	return peak;
}

static void report_choice(const struct candidates *all, const struct candidate *most)
{
	char bytes[UNIT_TEXT_MAX], peak_text[UNIT_TEXT_MAX];
	uint64_t peak = find_process_peak(all, most);

	format_size(bytes, most->bytes, false);
	if (peak)
		log_info("%s%s: %s traced, %.1f %% of the peak, %s", most->path, most->when, bytes,
		    100.0 * most->bytes / peak, format_size(peak_text, peak, false));
	else
		log_info("%s%s: %s traced; the peak was not recorded", most->path, most->when, bytes);
}

static void candidates_release(struct candidates *all)
{
	for (size_t i = 0; i < all->candidate_nr; i++)
		candidate_release(&all->candidate[i]);
	free(all->candidate);
}

/*
 * Chooses the snapshot with the most traced bytes of all that the texts name (find_all_snapshots()). Reports on stderr
 * which snapshot it is, when it was taken and, if the snapshots know, its share of the process's peak. It reports files
 * that cannot be read. Returns an exit status: EXIT_FAILED with a path in *ret_path if some files could not be read,
 * without a path if none could. The caller frees *ret_path.
 */
static int at_peak_choose(const char *const *text, size_t text_nr, char **ret_path)
{
	struct candidates all = { .status = EXIT_DONE };
	struct snapshot_paths paths = {};
	struct progress progress;

	*ret_path = NULL;
	for (size_t i = 0; i < text_nr; i++)
		if (find_all_snapshots(text[i], &paths))
			all.status = EXIT_FAILED;
	progress = progress_begin("reading", "snapshots", paths.path_nr);
	for (size_t i = 0; i < paths.path_nr; i++) {
		progress_show(&progress, i);
		add_candidate_file(&all, paths.path[i]);
	}
	progress_end(&progress);
	if (all.candidate_nr) {
		const struct candidate *most = find_largest(&all);

		report_choice(&all, most);
		*ret_path = strdup(most->path);
		if (!*ret_path)
			all.status = log_failure("out of memory");
	}
	candidates_release(&all);
	snapshot_paths_release(&paths);
	return all.status;
}

/* ---- the command -------------------------------------------------------------------------- */

#define STATS_WARNING_NR 7

static size_t make_warnings(const struct snapshot *snapshot, const struct engine_options *engine,
			    struct cost *ret_gap_blocks, struct reason line[STATS_WARNING_NR])
{
	const char *filters = snapshot__metadata(snapshot, "filters");
	size_t nr = 0;

	if (filters) /* open_input.c reported it when it read the file */
		reason_set(&line[nr++], 0, "filtered, not the whole: %.400s", filters);
	if (gap_warning(snapshot, engine, "", ret_gap_blocks, &line[nr]))
		log_cut("warning: %s", line[nr++].text);
	if (measure_warning(snapshot, engine, &line[nr]))
		log_cut("warning: %s", line[nr++].text);
	if (unseen_heap_warning(snapshot, &line[nr]))
		log_cut("warning: %s", line[nr++].text);
	if (!engine->measure && told_samples_doubt(snapshot, &line[nr]))
		log_cut("warning: %s", line[nr++].text);
	if (unjudged_java_warning(snapshot, &line[nr]))
		log_cut("warning: %s", line[nr++].text);
	if (unseen_start_warning(snapshot, &line[nr]))
		log_cut("warning: %s", line[nr++].text);
	if (snapshot_has_pages(snapshot)) /* text has it below the total */
		reason_set(&line[nr++], 0, "%s", PAGES_MEANING);
	return nr;
}

/* One line if no function and no line is known: recorded with --no-names, or a heap profile without names. */
static void log_names_hint(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	bool has_object = false, has_build_id = false;

	if (snapshot_has_names(snapshot))
		return;
	for (uint32_t i = 1; i < tables->frame_nr; i++) {
		const struct snap_frame *frame = &tables->frame[i];

		has_object |= frame->object;
		has_build_id |= tables->object[frame->object].build_id;
	}
	if (has_object)
		log_cut("hint: no function has a name; 'allocsnap symbolize%s' adds them from the files of this machine",
			has_build_id ? "" : " --by-path");
}

static int print_statistics(const struct stats_options *options, const struct chosen *chosen,
			    const struct snapshot *snapshot, const struct statistics *statistics)
{
	struct reason line[STATS_WARNING_NR];
	const char *warning[] = { line[0].text, line[1].text, line[2].text, line[3].text, line[4].text };
	struct report report = {
		.statistics = statistics,
		.snapshot = &snapshot,
		.snapshot_nr = 1,
		.warning = warning,
	};

	report.warning_nr = make_warnings(snapshot, &chosen->engine, report.gap_blocks, line);
	log_names_hint(snapshot);
	return print_report(options, chosen, &report);
}

int report_statistics(const struct stats_options *options, const struct chosen *chosen,
		      const struct snapshot *snapshot, const char *name)
{
	struct statistics *statistics = NULL;
	struct reason why = { "out of memory" };
	int status;

	if (snapshot_statistics(snapshot, &chosen->engine, &statistics, &why))
		status = log_failure("%s: %s", name, why.text);
	else
		status = print_statistics(options, chosen, snapshot, statistics);
	statistics_free(statistics);
	return status;
}

static int report_snapshot(const struct stats_options *options, const struct chosen *chosen,
			   const char *path)
{
	struct snapshot *snapshot = open_snapshot(path);
	int status = snapshot ? report_statistics(options, chosen, snapshot, path) : EXIT_FAILED;

	snapshot__close(snapshot);
	return status;
}

/* If some snapshots cannot be read, the choice among the others is still reported, but the exit status is a failure. */
static int report_snapshot_at_peak(const struct stats_options *options, const struct chosen *chosen,
				   const struct arguments *args)
{
	char *path;
	int failed = at_peak_choose(args->item, args->item_nr, &path);
	int status = path ? report_snapshot(options, chosen, path) : EXIT_FAILED;

	free(path);
	return status ?: failed;
}

static int report_snapshot_of(const struct stats_options *options, const struct chosen *chosen, const char *text)
{
	char *path;
	int status = find_snapshot(text, &path) ?: report_snapshot(options, chosen, path);

	free(path);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct stats_options *options = command_options;
	struct chosen chosen;
	int status = stats_question(&cmd_stats, options, &chosen);

	if (!status && !options->at_peak && args->item_nr > 1)
		status = log_refusal(&cmd_stats, "one argument too many, '%s': several snapshots go with "
				     "--at-peak", args->item[1]);
	else if (!status && options->at_peak)
		status = report_snapshot_at_peak(options, &chosen, args);
	else if (!status)
		status = report_snapshot_of(options, &chosen, args->item[0]);
	chosen_release(&chosen);
	return status;
}

const struct command cmd_stats = {
	.name = "stats",
	.args = "SNAP",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "report what holds the memory: live blocks by where they were allocated",
	.detail = FIND_SNAPSHOT_DETAIL
		  "With --at-peak, the snapshot with the most live bytes is read. SNAP can then be several snapshots, "
		  "or folders with the snapshots of several processes:\n"
		  "  allocsnap stats --at-peak allocsnap-data\n\n"
		  SELECT_DETAIL,
	.example = "allocsnap stats redis-server --group-by function --top 20",
	.option = { STATS_GROUPS(0), { .row = at_peak_rows, .title = "Report" }, SELECT_GROUPS(FIELD(select)) },
	.defaults = &(const struct stats_options){ STATS_DEFAULTS },
	.options_size = sizeof(struct stats_options),
	.pages = true,
	.run = run,
};
