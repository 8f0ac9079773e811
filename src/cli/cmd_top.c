// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap top: a live view of what holds memory and what grows, and the same view of files. */
#include "cli/cmd_top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "top/views.h"

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
