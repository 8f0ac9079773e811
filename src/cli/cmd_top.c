// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/walk.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd_stats.h"
#include "cli/cmd_top.h"
#include "cli/find_snapshot.h"
#include "cli/leak_input.h"
#include "cli/open_input.h"
#include "cli/process_list.h"
#include "snapshot.h"
#include "top/top_view.h"

/* ---- the view ------------------------------------------------------------------------------- */

/* Without a terminal, or on one that cannot place text, the view is text. */
static bool is_shown_as_text(const struct top_command_options *options)
{
	const char *term = getenv("TERM");

	return options->is_batch || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !term || !*term ||
	       !strcmp(term, "dumb");
}

int top_show(const struct top_command_options *options, struct viewer_options *viewer_options, struct top_model *model)
{
	struct viewer viewer;
	int status;

	viewer_options->interval_ns = options->interval_ns;
	viewer_options->count = options->count;
	model->key_type = options->key_type;
	model->order = options->order;
	model->top = options->top;
	model->page = model->has_list ? TOP_PAGE_PROCESSES : TOP_PAGE_ROWS;
	if (viewer_init(&viewer, viewer_options, model))
		status = log_failure("cannot begin: %s", strerror(errno));
	else if (viewer.has_failed)
		status = EXIT_FAILED;
	else
		status = is_shown_as_text(options) ? text_view_run(&viewer) : terminal_view_run(&viewer);
	viewer_release(&viewer);
	return status;
}

/* ---- the snapshots of a view ---------------------------------------------------------------- */

/* The snapshots that are shown now. */
struct browsed {
	struct leak_input input;   /* of a folder */
	struct snapshot *snapshot; /* of a single file, which may be a pipe */
	uint64_t now_ns;
};

static void release_browsed(struct browsed *browsed)
{
	leak_input_release(&browsed->input);
	snapshot__close(browsed->snapshot);
	*browsed = (struct browsed){};
}

/* ---- a file --------------------------------------------------------------------------------- */

static struct snapshot *copy_browsed(void *browsed_, uint32_t at, struct reason *why)
{
	const struct browsed *browsed = browsed_;
	struct snapshot *copy = NULL;
	int err = snapshot__select(browsed->snapshot, NULL, &copy);

	(void)at;
	errno = -err;
	if (err)
		reason_set(why, err, "%s", strerror(-err));
	return copy;
}

/* As stats reads it: also standard input, and JSON of Python. Without times it is shown, too, but not judged. */
static int open_single(struct browsed *browsed, const char *path, struct leak_recording *ret)
{
	browsed->snapshot = open_snapshot(path);
	if (!browsed->snapshot)
		return EXIT_FAILED;
	browsed->now_ns = snapshot__metadata_u64(browsed->snapshot, "monotonic_ns", 0);
	*ret = (struct leak_recording){
		.times = {
			.begin_ns = snapshot__metadata_u64(browsed->snapshot, "recording_start_monotonic_ns", UINT64_MAX),
			.now_ns = &browsed->now_ns,
			.snapshot_nr = 1,
		},
		.open = copy_browsed,
		.what = browsed,
	};
	return EXIT_DONE;
}

static int open_browsed(void *browsed_, const struct top_process *process, struct leak_recording *ret)
{
	static const struct leak_choice choice = {};
	const char *path = process->place;
	struct browsed *browsed = browsed_;
	int status;

	release_browsed(browsed);
	if (!is_folder(path))
		return open_single(browsed, path, ret);
	status = leak_input_choose(&path, 1, &choice, &browsed->input);
	if (!status && browsed->input.has_several)
		status = log_failure("%s: snapshots of several processes, or in several folders", path);
	*ret = browsed->input.recording;
	return status;
}

/* ---- the list ------------------------------------------------------------------------------- */

static int add_browsed(struct top_model *model, struct top_process process, const char *path)
{
	process.place = strdup(path);
	if (process.place && !array_push(model, process, process))
		return EXIT_DONE;
	free(process.place);
	return log_failure("out of memory");
}

/* A folder with snapshots of several processes is no place of one of them: its last file is. */
static const char *place_of_listed(const struct process_list *list, const struct listed_process *listed)
{
	size_t nr = 0;

	for (size_t i = 0; i < list->process_nr; i++)
		nr += !strcmp(list->process[i].folder, listed->folder);
	return nr == 1 ? listed->folder : listed->last.path;
}

static int add_listed(struct top_model *model, const struct process_list *list, const struct listed_process *listed)
{
	const struct moment *first = &listed->first.moment, *last = &listed->last.moment;
	uint64_t span_ns = last->boot ? last->monotonic_ns - first->monotonic_ns : last->wall_ns - first->wall_ns;
	double growth = (double)listed->last.traced_bytes - (double)listed->first.traced_bytes;
	struct top_process process = {
		.pid = listed->pid,
		.bytes = listed->last.traced_bytes,
		.peak_bytes = listed->peak_bytes,
		.is_estimated = listed->is_estimated,
		.is_brief = true,
		.has_rate = first->wall_ns && span_ns && moment_compare(first, last, NULL) < 0,
		.has_ended = strcmp(listed->end, "running"),
	};

	if (process.has_rate)
		process.bytes_per_s = growth * SECOND_NS / span_ns;
	snprintf(process.comm, sizeof(process.comm), "%s", listed->comm);
	return add_browsed(model, process, place_of_listed(list, listed));
}

static int browse_folder(struct top_model *model, const char *path)
{
	struct process_list list;
	int failed = process_list_read(path, &list), status = EXIT_DONE;

	for (size_t i = 0; i < list.process_nr && !status; i++)
		status = add_listed(model, &list, &list.process[i]);
	if (!list.process_nr && !failed)
		status = log_failure("%s: no snapshots in it", path);
	process_list_release(&list);
	return model->process_nr ? status : status ?: failed;
}

static int browse_file(struct top_model *model, const char *text)
{
	char *path;
	int status = find_snapshot(text, &path);

	status = status ?: add_browsed(model, (struct top_process){}, path);
	free(path);
	return status;
}

/* Shows the snapshots of a file or folder. Returns an exit status. */
static int top_browse(const struct top_command_options *options, const struct engine_options *engine, const char *text)
{
	struct browsed browsed = {};
	struct top_model model = {};
	struct viewer_options viewer = { .engine = engine, .open_series = open_browsed, .what = &browsed };
	int status = is_folder(text) ? browse_folder(&model, text) : browse_file(&model, text);

	if (status) {
		top_model_release(&model);
		return status;
	}
	model.has_list = model.process_nr > 1;
	viewer.signal_fd = signals_open();
	status = viewer.signal_fd < 0 ? EXIT_FAILED : top_show(options, &viewer, &model);
	if (viewer.signal_fd >= 0)
		close(viewer.signal_fd);
	release_browsed(&browsed);
	return status;
}

/* ---- options -------------------------------------------------------------------------------- */

#define FIELD(name) offsetof(struct top_command_options, name)

static bool top_order_choice(size_t at, struct option_choice *ret)
{
	static const char *const name[TOP_ORDER_NR] = {
		[TOP_ORDER_LEAK] = "leak",     [TOP_ORDER_GROWTH] = "growth", [TOP_ORDER_SIZE] = "size",
		[TOP_ORDER_BLOCKS] = "blocks", [TOP_ORDER_NAME] = "name",
	};

	if (at >= TOP_ORDER_NR)
		return false;
	*ret = (struct option_choice){ name[at], top_order_name(at), at };
	return true;
}

static const struct option_row view_rows[] = {
	{ "system", 0, OPTION_FLAG, FIELD(is_system),
	  .help = "record all processes of the machine, now running or started later", .rank = 1 },
	{ "group-by", 'g', OPTION_CUSTOM, FIELD(key_type), .parse = parse_key_type,
	  .choice = key_type_choice, .default_text = "lineno", .arg = "KEY", .help = "group blocks by KEY", .rank = 3,
	  .brief = "group blocks by KEY: lineno, function, traceback…" },
	{ "sort", 's', OPTION_CHOICE, FIELD(order), .choice = top_order_choice, .default_text = "leak",
	  .arg = "ORDER", .help = "which rows come first", .rank = 2,
	  .brief = "which rows come first: leak, size, growth…" },
	{ "interval", 'i', OPTION_DURATION, FIELD(interval_ns), .arg = "TIME", .least = 100000000,
	  .help = "take a snapshot every TIME, or less often if each takes long", .rank = 4 },
	{ "batch", 'b', OPTION_FLAG, FIELD(is_batch), .rank = 5,
	  .help = "write text, one screen after another, as without a terminal" },
	{ "count", 'n', OPTION_COUNT, FIELD(count), .arg = "N", .least = 1, .rank = 6,
	  .help = "with --batch: end after N screens" },
	{ "top", 0, OPTION_COUNT, FIELD(top), .arg = "N", .most = UINT32_MAX,
	  .help = "with --batch: show the first N rows; 0 shows all" },
	{ "output", 'o', OPTION_STRING, FIELD(capture.recording.dir), .arg = "DIR",
	  .help = "the key w writes snapshots to DIR/HOST/COMM.PID/TIME.snap", .rank = 7 },
	{},
};

/* ---- the command ---------------------------------------------------------------------------- */

static const struct top_command_options top_defaults = {
	.capture = CAPTURE_DEFAULTS,
	.interval_ns = 2 * SECOND_NS,
	.top = 20,
};

static int check_top_arguments(const struct top_command_options *options, const struct arguments *args,
			       bool *ret_is_live)
{
	size_t nr = 0;

	for (size_t i = 0; i < args->item_nr; i++)
		nr += names_process(args->item[i]);
	*ret_is_live = nr || options->is_system;
	if (!args->item_nr && !options->is_system)
		return log_refusal(&cmd_top, "missing argument: top %s, or --system", cmd_top.args);
	if (args->item_nr && options->is_system)
		return log_refusal(&cmd_top, "--system records all processes: no PID, NAME or file goes with it");
	if (nr && nr != args->item_nr)
		return log_refusal(&cmd_top, "either processes, or one snapshot or folder");
	if (!*ret_is_live && args->item_nr > 1)
		return log_refusal(&cmd_top, "one snapshot or folder at a time");
	if (!*ret_is_live && memcmp(&options->capture, &top_defaults.capture, sizeof(options->capture)))
		return log_refusal(&cmd_top, "options of recording go with processes, not with snapshots");
	return EXIT_DONE;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct top_command_options *options = command_options;
	struct chosen chosen = {};
	bool is_live;
	int status = check_top_arguments(options, args, &is_live);

	status = status ?: select_options_resolve(&cmd_top, &options->select, &chosen);
	if (!status && is_live)
		status = top_record(options, &chosen.engine, args);
	else if (!status)
		status = top_browse(options, &chosen.engine, args->item[0]);
	chosen_release(&chosen);
	return status;
}

const struct command cmd_top = {
	.name = "top",
	.args = "PID | NAME | SNAP | FOLDER…",
	.arg_max = UINT_MAX,
	.help = "watch which lines hold memory, grow and leak: live, or in snapshots",
	.detail = "Running processes are recorded as attach does it, until the view ends; nothing is kept unless the key w "
		  "writes it. Several processes are a list first, and Enter opens one. SNAP is a snapshot file, or a "
		  "PID or COMM with @WHICH of which " DATA_DIR " has snapshots; of a FOLDER the latest snapshot of each "
		  "process is shown, with its growth since the first one.\n\n"
		  "Keys: ? lists all; arrows select, Enter opens, Esc goes back, s sorts, g groups, / filters, p pauses, r r "
		  "forgets all blocks, w writes the snapshot, q quits.\n\n"
		  "A row is marked LEAKS or MAY LEAK as 'allocsnap leaks' would name it; it takes some seconds until that is "
		  "known. GROWTH/MIN is over the last minute. Snapshots are taken only while rows of a process are shown, and "
		  "less often than --interval if each takes long. Up to 12 of them are kept in $TMPDIR until the end.\n\n"
		  "Colours are used where the terminal has them and NO_COLOR is not set. SIGUSR1 takes a snapshot now, SIGUSR2 "
		  "forgets all blocks.\n\n"
		  SUPPRESSIONS_DETAIL "\n\n" SELECT_DETAIL PROBE_DETAIL,
	.example = "sudo allocsnap top redis-server",
	.option = {
		{ view_rows, 0, "View" },
		{ filter_rows, FIELD(select), "Filters" },
		{ suppression_rows, FIELD(select), "Filters" },
		{ wrapper_rows, FIELD(select), "Own frames" },
		{ capture_what_rows, FIELD(capture), "Recording of processes" },
		{ capture_children_rows, FIELD(capture), "Recording of processes" },
		{ capture_stack_rows, FIELD(capture), "Recording of processes" },
		{ capture_cost_rows, FIELD(capture), "Recording of processes" },
	},
	.defaults = &top_defaults,
	.options_size = sizeof(struct top_command_options),
	.has_own_screen = true,
	.run = run,
};
