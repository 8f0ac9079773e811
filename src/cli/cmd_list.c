// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap list: which processes have snapshots below a folder. */
#include <stdio.h>
#include <unistd.h>

#include "base/terminal.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "cli/pager.h"
#include "cli/process_list.h"
#include "render.h"

extern const struct command cmd_list;

struct list_options {
	const struct renderer *format; /* NULL: text */
};

static const struct option_row rows[] = {
	{ "json", 'j', OPTION_CUSTOM, offsetof(struct list_options, format), .parse = parse_json,
	  .help = "print one object with exact numbers and all paths" },
	{},
};

static int print_list(const struct list_options *options, const struct process_list *list)
{
	pager_begin();
	return report_write_error(options->format ? process_list_put_json(list, stdout) :
						    list_table_print(list, stdout, terminal_width(STDOUT_FILENO)));
}

static int run(const void *command_options, const struct arguments *args)
{
	const char *dir = args->item_nr ? args->item[0] : DATA_DIR;
	struct process_list list;
	int failed = process_list_read(dir, &list), status = EXIT_DONE;

	if (list.process_nr)
		status = print_list(command_options, &list);
	else if (!failed)
		status = log_failure("%s: no snapshots in it", dir);
	process_list_release(&list);
	return status ?: failed;
}

const struct command cmd_list = {
	.name = "list",
	.args = "[DIR]",
	.arg_max = 1,
	.help = "list the processes that have snapshots in a folder",
	.detail = "DIR is " DATA_DIR " if it is not given, and is searched with all folders below it. The process with "
		  "the newest snapshot comes first. Times are UTC by the wall clock, as in the names of the files. The monotonic clock "
		  "orders the snapshots of a process.\n\n"
		  "TRACED is the memory in live blocks in the last snapshot, PEAK the most that any snapshot knows of, "
		  "GROWTH the last TRACED minus the first one, END how the process ended. A ~ stands before estimates from "
		  "samples. The column SAMPLER is there if a process took samples itself: by its own sampler, or by one "
		  "that was preloaded or injected; POD is there if a process is in a pod of Kubernetes whose name is known. "
		  "A ? stands for a process that ended before its allocator was probed: what it held is not known. "
		  "On a terminal, the table is fitted to its width.\n\n"
		  "Files that cannot be read are named on standard error; the others are listed, and the exit status "
		  "is 1.\n",
	.example = "allocsnap list /var/lib/allocsnap",
	.option = { { .row = rows } },
	.options_size = sizeof(struct list_options),
	.pages = true,
	.run = run,
};
