// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "archive/names.h"
#include "base/array.h"
#include "base/file_replace.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd_top.h"
#include "cli/find_running_process.h"
#include "cli/recording_place.h"
#include "cli/temporary_folder.h"
#include "collect.h"
#include "snapshot.h"
#include "top/live.h"

/* ---- the key w ------------------------------------------------------------------------------ */

/* Where the key w writes, and what it has written. */
struct saved_snapshots {
	const struct recording_options *recording; /* its dir and owner */
	struct snapshot_paths paths;
};

static int copy_bytes(int from, int to)
{
	ssize_t nr;

	while ((nr = sendfile(to, from, NULL, 1 << 20)) > 0)
		;
	return nr < 0 ? -errno : 0;
}

/* 0 or a negative errno. An owner gets the file. */
static int copy_snapshot(const char *path, int folder_fd, const char *name, const struct snapshot_file_owner *owner)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), err;
	struct atomic_file file;

	if (from < 0)
		return -errno;
	err = atomic_file_open(&file, folder_fd, name, false) ?: copy_bytes(from, file.fd);
	if (!err && owner->is_set && fchown(file.fd, owner->uid, owner->gid))
		err = -errno;
	err = err ?: atomic_file_sync(&file) ?: atomic_file_link(&file, name);
	atomic_file_close(&file);
	close(from);
	return err == -EEXIST ? 0 : err; /* it was saved before */
}

static int save_into_folder(const struct saved_snapshots *saved, const char *path, const struct snapshot *snapshot,
			    char **ret_path, struct reason *why)
{
	const struct snapshot_file_owner *owner = &saved->recording->owner;
	const char *name = path_name(path);
	int folder_fd, err;
	char *folder = archive_make_folder(saved->recording->dir, snapshot__metadata(snapshot, "host") ?: "unknown",
					   snapshot__metadata(snapshot, "comm") ?: "unknown",
					   snapshot__metadata_u64(snapshot, "pid", 0), owner, &folder_fd, why);

	if (!folder)
		return -errno;
	err = copy_snapshot(path, folder_fd, name, owner);
	if (err)
		reason_set(why, err, "%s/%s: %s", folder, name, strerror(-err));
	else if (asprintf(ret_path, "%s/%s", folder, name) < 0)
		err = -ENOMEM;
	close(folder_fd);
	free(folder);
	return err;
}

static int save_shown_snapshot(void *saved_, const char *path, struct reason *ret_text)
{
	struct saved_snapshots *saved = saved_;
	struct snapshot_paths *paths = &saved->paths;
	struct snapshot *snapshot = snapshot__open(path, ret_text);
	char *copy = NULL;
	int err = snapshot ? save_into_folder(saved, path, snapshot, &copy, ret_text) : -errno;

	snapshot__close(snapshot);
	if (err)
		return EXIT_FAILED;
	reason_set(ret_text, 0, "%s", copy);
	if (!paths->path_nr || strcmp(paths->path[paths->path_nr - 1], copy))
		err = snapshot_paths_add(paths, copy);
	free(copy);
	return err ? EXIT_FAILED : EXIT_DONE;
}

/* As attach does: the paths go to standard output. */
static void print_saved(struct saved_snapshots *saved)
{
	for (size_t i = 0; i < saved->paths.path_nr; i++)
		puts(saved->paths.path[i]);
	snapshot_paths_release(&saved->paths);
	fflush(stdout);
}

/* ---- the recording -------------------------------------------------------------------------- */

static int find_top_targets(struct process_ids *targets, const struct arguments *args)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < args->item_nr && !status; i++) {
		pid_t pid;

		status = find_running_process(args->item[i], &pid);
		if (!status && process_ids_have(targets, pid))
			status = log_refusal(&cmd_top, "process %d is named twice", pid);
		status = status ?: process_ids_add(targets, pid);
	}
	return status;
}

static int list_targets(struct top_model *model, const struct process_ids *targets)
{
	for (size_t i = 0; i < targets->pid_nr; i++) {
		struct top_process process = { .pid = targets->pid[i] };

		if (array_push(model, process, process))
			return log_failure("out of memory");
	}
	return EXIT_DONE;
}

static int show_recording(const struct top_command_options *options, const struct engine_options *engine,
			  const struct recording_options *place, struct live *live, int signal_fd,
			  const struct process_ids *targets)
{
	struct saved_snapshots saved = { .recording = place };
	struct viewer_options viewer = {
		.engine = engine,
		.signal_fd = signal_fd,
		.live = live,
		.save = save_shown_snapshot,
		.what = &saved,
	};
	struct top_model model = {
		.is_live = true,
		.has_list = options->is_system || targets->pid_nr > 1 || options->capture.follow_forks ||
			    options->capture.children,
		.is_system = options->is_system,
	};
	int status = list_targets(&model, targets) ?: top_show(options, &viewer, &model);

	print_saved(&saved);
	return status;
}

static int record_and_show(const struct top_command_options *options, const struct engine_options *engine,
			   struct collector *collector, int signal_fd, const struct process_ids *targets)
{
	struct recording_options place = capture_recording_options(&options->capture), recording = place;
	struct temporary_folder folder = {};
	struct live live;
	int status = temporary_folder_make("top", &folder), ended;

	if (status)
		return status;
	recording.dir = folder.path;
	recording.file = NULL;
	recording.owner = (struct snapshot_file_owner){};
	recording.is_system_wide = options->is_system;
	status = drop_privileges(collector, &place, privileges_to_make(place.dir));
	if (!status && live_start(&live, &recording, collector, signal_fd)) {
		status = log_failure("cannot start a thread");
	} else if (!status) {
		status = show_recording(options, engine, &place, &live, signal_fd, targets);
		ended = live_end(&live);
		status = status ?: ended;
	}
	temporary_folder_remove(&folder);
	return status;
}

int top_record(const struct top_command_options *options, const struct engine_options *engine,
	       const struct arguments *args)
{
	struct process_ids targets = {};
	int status = check_capture(&cmd_top, &options->capture) ?: find_top_targets(&targets, args);
	int signal_fd = status ? -1 : signals_open();
	struct collector *collector = NULL;

	if (!status && signal_fd < 0)
		status = EXIT_FAILED;
	if (!status)
		collector = capture_open_collector_with(&options->capture, &(struct collector_options){
			.system_wide = options->is_system,
			.min_bytes = 65536,
		});
	if (!status && !collector)
		status = EXIT_FAILED;
	status = status ?: start_processes(collector, targets.pid, targets.pid_nr) ?:
			   start_running_children(collector, &options->capture, targets.pid, targets.pid_nr);
	status = status ?: record_and_show(options, engine, collector, signal_fd, &targets);
	collector__close(collector);
	if (signal_fd >= 0)
		close(signal_fd);
	free(targets.pid);
	return status;
}
