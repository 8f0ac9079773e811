// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap list: which processes have snapshots below a folder. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "cli/list_table.h"
#include "cli/pager.h"
#include "cli/process_list.h"
#include "render.h"
#include "render/json_parts.h"

extern const struct command cmd_list;

struct list_options {
	const struct renderer *format; /* NULL: text */
};

static const struct option_row rows[] = {
	{ "json", 'j', OPTION_CUSTOM, offsetof(struct list_options, format), .parse = parse_json,
	  .help = "print one object with exact numbers and all paths" },
	{},
};

/* ---- as JSON ------------------------------------------------------------------------------ */

static int json_set_time(json_t *object, const char *key, uint64_t wall_ns)
{
	char text[LIST_TIME_MAX];

	return wall_ns ? json_set_text(object, key, list_time_text(text, wall_ns, LIST_TIME_RFC3339)) : 0;
}

static json_t *listed_snapshot_json(const struct listed_snapshot *snapshot)
{
	json_t *object = json_object();
	int err = json_set_text(object, "path", snapshot->path);

	err = err ?: json_set_time(object, "wall_time", snapshot->moment.wall_ns);
	err = err ?: json_set_uint(object, "traced_bytes", snapshot->traced_bytes);
	return json_unless(err, object);
}

static json_t *listed_process_json(const struct listed_process *process)
{
	json_t *object = json_object();
	int err = json_set_text(object, "host", process->host);

	if (process->pid)
		err = err ?: json_set_uint(object, "pid", process->pid);
	err = err ?: json_set_text(object, "comm", process->comm);
	err = err ?: json_set_text(object, "folder", process->folder);
	err = err ?: json_set_uint(object, "snapshots", process->snapshot_nr);
	err = err ?: json_set_uint(object, "disk_bytes", process->disk_bytes);
	err = err ?: json_set(object, "first", listed_snapshot_json(&process->first));
	err = err ?: json_set(object, "last", listed_snapshot_json(&process->last));
	err = err ?: json_set_uint(object, "peak_bytes", process->peak_bytes);
	err = err ?: json_set_int(object, "growth_bytes",
				  (int64_t)(process->last.traced_bytes - process->first.traced_bytes));
	err = err ?: json_set(object, "is_estimated", json_boolean(process->is_estimated));
	err = err ?: json_set_text(object, "sampler", process->sampler);
	if (process->is_unseen)
		err = err ?: json_set(object, "is_unseen", json_true());
	err = err ?: json_set_text(object, "end", process->end);
	return json_unless(err, object);
}

static int print_list_json(const struct process_list *list)
{
	json_t *head = json_object(), *processes = json_array();
	int err = json_set_text(head, "schema", "allocsnap.list/1");

	for (size_t i = 0; i < list->process_nr && !err; i++)
		if (json_array_append_new(processes, listed_process_json(&list->process[i])))
			err = -ENOMEM;
	err = json_set(head, "processes", json_unless(err, processes));
	err = err ?: json_set_uint(head, "unreadable", list->damaged_nr);
	err = json_put(stdout, json_unless(err, head), 0);
	return err ?: putchar('\n') == EOF ? -errno : 0;
}

/* ---- the command -------------------------------------------------------------------------- */

static int print_list(const struct list_options *options, const struct process_list *list)
{
	pager_begin();
	if (options->format)
		return report_write_error(print_list_json(list));
	return report_write_error(list_table_print(list, stdout, terminal_width(STDOUT_FILENO)));
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
		  "samples. SAMPLER is there if a process took samples itself: by its own sampler, or by one that was "
		  "preloaded or injected. A ? stands for a process that "
		  "was over before its allocator was probed: what it held is not known. On a terminal, the table is fitted to "
		  "its width.\n\n"
		  "Files that cannot be read are named on standard error; the others are listed, and the exit status "
		  "is 1.\n",
	.example = "allocsnap list /var/lib/allocsnap",
	.option = { { .row = rows } },
	.options_size = sizeof(struct list_options),
	.pages = true,
	.run = run,
};
