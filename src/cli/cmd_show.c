// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "cli/open_input.h"
#include "cli/pager.h"
#include "render.h"
#include "snapshot.h"

struct show_options {
	const char *address; /* NULL: the whole snapshot */
	const struct renderer *format; /* NULL: text */
	bool full_names;
};

/* The formats that can describe a snapshot. */
static bool show_format_choice(size_t at, struct option_choice *ret)
{
	size_t nr;
	const struct renderer *table = renderer_table(&nr);

	for (size_t i = 0; i < nr; i++) {
		if (!table[i].show || at--)
			continue;
		*ret = (struct option_choice){ table[i].name };
		return true;
	}
	return false;
}

static int parse_show_format(const char *text, void *field, struct reason *why)
{
	struct option_choice choice;
	char names[64] = "";

	for (size_t at = 0; show_format_choice(at, &choice); at++) {
		if (!strcmp(text, choice.name))
			return parse_format(text, field, why);
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", at ? ", " : "", choice.name);
	}
	return reason_set(why, -EINVAL, "'%.100s' is none of %s", text, names);
}

static const struct option_row rows[] = {
	{ "address", 'a', OPTION_STRING, offsetof(struct show_options, address),
	  .arg = "ADDR", .help = "show what allocated the block that contains this address (0x…)" },
	{ "full-names", 'v', OPTION_FLAG, offsetof(struct show_options, full_names),
	  .help = "with --address: print functions with parameters and all template arguments" },
	{ "format", 'f', OPTION_CUSTOM, offsetof(struct show_options, format),
	  .parse = parse_show_format, .choice = show_format_choice, .arg = "F", .default_text = "text",
	  .help = "write the description as" },
	{ "json", 'j', OPTION_CUSTOM, offsetof(struct show_options, format), .parse = parse_json,
	  .help = "the same as --format json" },
	{},
};

static int show_block(const struct renderer *format, const struct snapshot *snapshot, const char *path,
		      uint64_t address, bool full_names)
{
	uint64_t at;
	int err = snapshot__find_address(snapshot, address, &at);

	if (err == -ENODATA)
		return log_failure("%s: the snapshot has no addresses", path);
	if (err)
		return log_failure("%s: no live block holds 0x%jx", path, (uintmax_t)address);
	return report_write_error(format->block(stdout, snapshot, at, full_names));
}

static int parse_address(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 0);
	return errno || *end || !isdigit((unsigned char)*text) ? -EINVAL : 0;
}

static int show_snapshot(const struct renderer *format, const struct show_options *options, const char *path,
			 uint64_t address)
{
	struct snapshot *snapshot = open_snapshot(path);
	int status;

	if (!snapshot)
		return EXIT_FAILED;
	pager_begin();
	if (options->address)
		status = show_block(format, snapshot, path, address, options->full_names);
	else
		status = report_write_error(format->show(stdout, snapshot));
	snapshot__close(snapshot);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct show_options *options = command_options;
	const struct renderer *format = format_or_text(options->format);
	uint64_t address = 0;
	char *path;
	int status;

	if (options->address && parse_address(options->address, &address))
		return log_refusal(&cmd_show, "--address: '%s' is no address such as 0x7f0012345678",
				   options->address);
	status = find_snapshot(args->item[0], &path) ?: show_snapshot(format, options, path, address);
	free(path);
	return status;
}

const struct command cmd_show = {
	.name = "show",
	.args = "SNAP",
	.arg_min = 1,
	.arg_max = 1,
	.help = "describe a snapshot: how much of RSS is traced, what was lost, its cost, its process",
	.detail = FIND_SNAPSHOT_DETAIL,
	.example = "allocsnap show new.snap --address 0x7f0012345678",
	.option = { { .row = rows } },
	.options_size = sizeof(struct show_options),
	.pages = true,
	.run = run,
};
