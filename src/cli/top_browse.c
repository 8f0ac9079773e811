// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `top` of snapshots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/walk.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "cli/cmd_top.h"
#include "cli/find_snapshot.h"
#include "cli/leak_input.h"
#include "cli/open_input.h"
#include "cli/process_list.h"
#include "snapshot.h"

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

int top_browse(const struct top_command_options *options, const struct engine_options *engine, const char *text)
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
