// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/leak_watch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/walk.h"
#include "base/clock.h"
#include "base/reason.h"
#include "cli/cmd_attach.h"
#include "cli/find_running_process.h"
#include "cli/leak_input.h"
#include "cli/open_input.h"
#include "cli/recording_place.h"
#include "collect.h"
#include "collect/diagnosis/diagnosis.h"

/* ---- how, if the user does not say it --------------------------------------------------------- */

/* Whether an option says what is recorded, or how. */
static bool is_way_given(const struct capture_options *capture)
{
	return is_sample_chosen(capture) || python_option_of(capture) || capture->inject_bytes || capture->go_profile || capture->max_overhead ||
	       capture->domains || capture->no_retag || capture->no_sampler || capture->no_return_probes ||
	       capture->follow_forks || capture->children || capture->probe.item_nr || capture->min_size;
}

/* Chooses how one process is recorded; *ret says it. Several processes are recorded in the same way: by traps. */
static int choose_way(struct capture_options *capture, const struct process_ids *watched, struct reason *ret)
{
	double core_percent = 0;
	struct ways ways;
	enum way way;

	if (watched->pid_nr != 1 || is_way_given(capture))
		return EXIT_DONE;
	if (diagnose_ways(*watched->pid, &ways, &core_percent, ret))
		return log_failure("%s", ret->text);
	way = ways_for_leaks(&ways, core_percent);
	capture->sample.by_pools = capture->sample.with_large = way == WAY_POOLS;
	ways_leaks_line(ret, *watched->pid, &ways, way, core_percent);
	return EXIT_DONE;
}

/* ---- observing processes --------------------------------------------------------------------- */

/* Births to the second are good enough from here on: rates are off by half a second in the survivors' half, 2 %. */
#define COMPACT_FROM_NS (60 * SECOND_NS)

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
			    const struct process_ids *watched, uint64_t watch_ns, struct leak_watch *watch)
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
		if (*watch->way.text)
			log_info("%s", watch->way.text);
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

static int record_and_keep(const struct command *command, const struct capture_options *capture,
			   const struct process_ids *watched, uint64_t watch_ns, struct leak_watch *ret)
{
	struct capture_options chosen = *capture;
	int status = check_capture(command, capture);

	if (!status && !capture->recording.dir) {
		status = temporary_folder_make("leaks", &ret->folder);
		chosen.recording.dir = ret->folder.path;
		chosen.recording.is_compact &= watch_ns >= COMPACT_FROM_NS;
	}
	else if (!status)
		status = recording_place_look(&capture->recording);
	status = status ?: choose_way(&chosen, watched, &ret->way) ?: record_watched(command, &chosen, watched, watch_ns, ret);
	if (!status && !ret->paths.path_nr)
		status = log_failure("nothing was recorded of process %d: it allocated nothing, or has ended", *watched->pid);
	return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* The process may have ended. */
static void report_earlier_snapshots(const char *name)
{
	struct process_folders folders = {};

	if (is_input_path(DATA_DIR) && !process_folders_scan(&folders, DATA_DIR)) {
		process_folders_retain(&folders, name);
		for (size_t i = 0; i < folders.folder_nr; i++)
			log_info("there are snapshots of it: allocsnap leaks %s", folders.folder[i].path);
	}
	process_folders_release(&folders);
}

static void report_early_end(const struct process_ids *watched, uint64_t took_ns, uint64_t wanted_ns)
{
	if (took_ns < wanted_ns)
		log_info("process %d was observed for %.0f s only, not for %.0f s: %s", *watched->pid, took_ns / 1e9,
			 wanted_ns / 1e9, kill(*watched->pid, 0) && errno == ESRCH ? "it ended" : "it was interrupted");
}

static int find_watched(const struct arguments *args, struct process_ids *ret)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < args->item_nr && !status; i++) {
		pid_t pid;

		status = find_running_process(args->item[i], &pid) ?: process_ids_add(ret, pid);
	}
	return status;
}

int leak_watch_record(const struct command *command, const struct capture_options *capture, const struct arguments *args,
		      uint64_t watch_ns, struct leak_watch *ret)
{
	uint64_t started_ns = monotonic_now_ns();
	struct process_ids watched = {};
	int status;

	*ret = (struct leak_watch){};
	status = find_watched(args, &watched) ?: record_and_keep(command, capture, &watched, watch_ns, ret);
	if (status == EXIT_FAILED && args->item_nr == 1)
		report_earlier_snapshots(args->item[0]);
	if (!status)
		report_early_end(&watched, monotonic_now_ns() - started_ns, watch_ns);
	ret->process_nr = watched.pid_nr;
	free(watched.pid);
	return status;
}

void leak_watch_release(struct leak_watch *watch)
{
	snapshot_paths_release(&watch->paths);
	temporary_folder_remove(&watch->folder);
	*watch = (struct leak_watch){};
}
