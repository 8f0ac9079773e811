// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cmd_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "render.h"
#include "snapshot.h"

/* ---- options ------------------------------------------------------------------------------ */

static int parse_key_type(const char *text, void *field, struct reason *why)
{
	return key_type_parse(text, field, why);
}

int parse_format(const char *text, void *field, struct reason *why)
{
	const struct renderer *format = renderer_find(text, why);

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

#define FIELD(name) offsetof(struct stats_options, name)

const struct option_row stats_rows[] = {
	{ "group-by", 'g', OPTION_CUSTOM, FIELD(key_type), .parse = parse_key_type,
	  .arg = "KEY", .help = "lineno (default; traceback for folded), filename or traceback" },
	{ "cumulative", 'c', OPTION_FLAG, FIELD(cumulative),
	  .help = "add a block to every frame of its traceback, again in a recursion" },
	{ "top", 'n', OPTION_COUNT, FIELD(top), .most = UINT32_MAX,
	  .arg = "N", .help = "rows to show (default 10, all for folded); 0: all" },
	{ "min-age", 0, OPTION_DURATION, FIELD(min_age_ns),
	  .arg = "TIME", .help = "only blocks that are older: 250ms, 10s, 5m, 2h" },
	{ "skip", 0, OPTION_LIST, FIELD(skip),
	  .arg = "GLOB", .help = "pass over functions such as xmalloc, g_*; repeatable" },
	{ "keep-wrappers", 0, OPTION_FLAG, FIELD(keep_wrappers),
	  .help = "start tracebacks at the allocator itself" },
	{ "oldest-first", 0, OPTION_FLAG, FIELD(oldest_first),
	  .help = "tracebacks in tracemalloc's order" },
	{ "format", 'f', OPTION_CUSTOM, FIELD(format), .parse = parse_format,
	  .arg = "F", .help = "text (default), json or folded (flame graphs)" },
	{ "json", 'j', OPTION_CUSTOM, FIELD(format), .parse = parse_json,
	  .help = "the same as --format json" },
	{},
};

const struct stats_options stats_defaults = { .key_type = KEY_TYPE_UNSAID, .top = TOP_UNSAID };

enum key_type stats_key_type(const struct stats_options *options)
{
	if (options->key_type != KEY_TYPE_UNSAID)
		return options->key_type;
	return options->cumulative ? KEY_LINENO : format_or_text(options->format)->key_type;
}

int check_stats_options(const struct command *command, const struct stats_options *options)
{
	if (options->cumulative && stats_key_type(options) == KEY_TRACEBACK)
		return say_refusal(command, "--cumulative goes with --group-by lineno or filename, "
					    "not traceback");
	if (options->cumulative && format_or_text(options->format)->key_type == KEY_TRACEBACK)
		return say_refusal(command, "--cumulative and folded stacks exclude each other");
	if (options->keep_wrappers && options->skip.item_nr)
		return say_refusal(command, "--skip and --keep-wrappers exclude each other");
	return 0;
}

struct engine_options engine_options(const struct stats_options *options)
{
	return (struct engine_options){
		.key_type = stats_key_type(options),
		.cumulative = options->cumulative,
		.keep_wrappers = options->keep_wrappers,
		.skip = options->skip.item,
		.skip_nr = options->skip.item_nr,
		.select.min_age_ns = options->min_age_ns,
	};
}

/* ---- files in, text out ------------------------------------------------------------------- */

struct snapshot *open_snapshot(const char *path)
{
	struct reason why = {};
	struct snapshot *snapshot = snapshot__open(path, &why);
	char *losses;

	if (!snapshot) {
		say("%s", why.text);
		return NULL;
	}
	losses = losses_line(snapshot);
	if (losses)
		say("%s: %s", path, losses);
	free(losses);
	return snapshot;
}

const struct renderer *format_or_text(const struct renderer *format)
{
	size_t nr;

	return format ?: renderer_table(&nr);
}

int written(int err)
{
	if (!err)
		return EXIT_DONE;
	if (err == -EPIPE)
		return EXIT_FAILED;
	return say_failure("cannot write: %s", strerror(-err));
}

int print_report(const struct stats_options *options, struct report *report)
{
	const struct renderer *format = format_or_text(options->format);

	report->top = options->top == TOP_UNSAID ? format->top : options->top;
	report->oldest_first = options->oldest_first;
	return written(format->report(stdout, report));
}

/* ---- the command -------------------------------------------------------------------------- */

static int print_statistics(const struct stats_options *options, const char *path,
			    const struct snapshot *snapshot)
{
	struct engine_options engine = engine_options(options);
	struct report report = { .snapshot = &snapshot, .snapshot_nr = 1 };
	struct statistics *statistics = NULL;
	struct reason why = { "out of memory" };
	int status;

	if (snapshot_statistics(snapshot, &engine, &statistics, &why))
		return say_failure("%s: %s", path, why.text);
	report.statistics = statistics;
	status = print_report(options, &report);
	statistics_free(statistics);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct stats_options *options = command_options;
	int status = check_stats_options(&cmd_stats, options);
	struct snapshot *snapshot;

	if (status)
		return status;
	snapshot = open_snapshot(args->item[0]);
	if (!snapshot)
		return EXIT_FAILED;
	status = print_statistics(options, args->item[0], snapshot);
	snapshot__close(snapshot);
	return status;
}

const struct command cmd_stats = {
	.name = "stats",
	.args = "SNAP",
	.arg_min = 1,
	.arg_max = 1,
	.help = "what holds the memory: live blocks by where they were allocated",
	.option = { { .row = stats_rows } },
	.defaults = &stats_defaults,
	.options_size = sizeof(struct stats_options),
	.run = run,
};
