// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>

#include "cmd_stats.h"
#include "input.h"
#include "render.h"
#include "snapshot.h"

struct show_options {
	const struct renderer *format; /* NULL: text */
};

static const struct option_row rows[] = {
	{ "format", 'f', OPTION_CUSTOM, offsetof(struct show_options, format),
	  .parse = parse_format, .arg = "F", .help = "text (default) or json" },
	{ "json", 'j', OPTION_CUSTOM, offsetof(struct show_options, format), .parse = parse_json,
	  .help = "the same as --format json" },
	{},
};

static int run(const void *command_options, const struct arguments *args)
{
	const struct show_options *options = command_options;
	const struct renderer *format = format_or_text(options->format);
	struct snapshot *snapshot;
	int status;

	if (!format->show)
		return say_refusal(&cmd_show, "--format is text or json, not %s", format->name);
	snapshot = open_snapshot(args->item[0]);
	if (!snapshot)
		return EXIT_FAILED;
	status = written(format->show(stdout, snapshot));
	snapshot__close(snapshot);
	return status;
}

const struct command cmd_show = {
	.name = "show",
	.args = "SNAP",
	.arg_min = 1,
	.arg_max = 1,
	.help = "what a snapshot is of, and what it does not know",
	.option = { { .row = rows } },
	.options_size = sizeof(struct show_options),
	.run = run,
};
