// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/leak_watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/leak_input.h"
#include "cli/recording_place.h"
#include "cli/running_children.h"
#include "collect.h"

/* Births to the second are good enough from here on: rates are off by half a second in the survivors' half, 2 %. */
#define COMPACT_FROM_NS (60 * SECOND_NS)

void leak_watch_release(struct leak_watch *watch)
{
	snapshot_paths_release(&watch->paths);
	temporary_folder_remove(&watch->folder);
	*watch = (struct leak_watch){};
}

/* ---- the recording -------------------------------------------------------------------------- */

static void keep_path(void *watch_, const char *path)
{
	struct leak_watch *watch = watch_;

	if (snapshot_paths_add(&watch->paths, path))
		watch->is_out_of_memory = true;
}

/* Snapshots at equal distances of a second or more, the last one at the end. */
static struct recording_options plan(const struct capture_options *capture, uint64_t watch_ns,
				     struct leak_watch *watch)
{
	struct recording_options recording = capture_recording_options(capture);

	recording.count = watch_ns / SECOND_NS < LEAK_SNAPSHOTS ? watch_ns / SECOND_NS : LEAK_SNAPSHOTS;
	recording.interval_ns = watch_ns / recording.count;
	recording.saved = keep_path;
	recording.saved_by = watch;
	return recording;
}

static int record_watched(const struct command *command, const struct capture_options *capture,
			    const struct watched *watched, uint64_t watch_ns, struct leak_watch *watch)
{
	const struct recording_options recording = plan(capture, watch_ns, watch);
	struct collector *collector = capture_open_collector(capture);
	int signal_fd = collector ? signals_open() : -1, status = signal_fd < 0 ? EXIT_FAILED : EXIT_DONE;

	if (!status && recording.file)
		status = log_refusal(command, "-o DIR must be a folder: there are several snapshots");
	status = status ?: inject_processes(collector, capture, watched->pid, watched->pid_nr) ?:
			   start_processes(collector, watched->pid, watched->pid_nr) ?:
			   start_running_children(collector, capture, watched->pid, watched->pid_nr);
	status = status ?: recording_place_check(&recording) ?: drop_privileges(collector, &recording, 0);
	if (!status) {
		if (watched->pid_nr == 1)
			log_info("observing process %d for %.0f s; Ctrl-C ends it earlier", *watched->pid, watch_ns / 1e9);
		else
			log_info("observing %zu processes for %.0f s; Ctrl-C ends it earlier", watched->pid_nr, watch_ns / 1e9);
		status = recording_run_until_stopped(&recording, collector, signal_fd);
	}
	watch->is_something_left = capture_close_collector(collector);
	if (signal_fd >= 0)
		close(signal_fd);
	return watch->is_out_of_memory ? log_failure("out of memory") : status;
}

int leak_watch_record(const struct command *command, const struct capture_options *capture,
		      const struct watched *watched, uint64_t watch_ns, struct leak_watch *ret)
{
	struct capture_options chosen = *capture;
	int status = check_capture(command, capture);

	*ret = (struct leak_watch){};
	if (!status && !capture->recording.dir) {
		status = temporary_folder_make("leaks", &ret->folder);
		chosen.recording.dir = ret->folder.path;
		chosen.recording.is_compact &= watch_ns >= COMPACT_FROM_NS;
	}
	else if (!status)
		status = recording_place_look(&capture->recording);
	status = status ?: record_watched(command, &chosen, watched, watch_ns, ret);
	if (!status && !ret->paths.path_nr)
		status = log_failure("nothing was recorded of process %d: it allocated nothing, or has ended", *watched->pid);
	return status;
}
