// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "collect.h"
#include "record/recorder.h"
#include "record/run_summary.h"

/* A process that was named, for the rows that are shown at the end. */
struct named {
	struct snapshot_owner at_last; /* as of its last snapshot */
	char *last_path;
};

struct recording {
	struct recorder recorder;
	struct named *named;
	size_t named_nr;
	struct run_summary summary; /* of `run` */
	bool is_mute; /* writing to standard output fails */
};

/* A reader that has gone away (EPIPE) needs no message. The snapshots are written in any case. */
static void print_path(struct recording *recording, const char *path)
{
	int err;

	if (puts(path) >= 0 && !fflush(stdout))
		return;
	err = errno;
	clearerr(stdout);
	if (!recording->is_mute && err != EPIPE)
		log_failure("cannot write to standard output: %s; the snapshots go on",
			    strerror(err));
	recording->is_mute = true;
	recording->recorder.status = EXIT_FAILED;
}

static void remember_last_path(struct recording *recording, const struct snapshot_owner *owner, const char *path)
{
	for (size_t i = 0; i < recording->named_nr; i++) {
		struct named *named = &recording->named[i];

		if (named->at_last.pid != owner->pid)
			continue;
		free(named->last_path);
		*named = (struct named){ *owner, strdup(path) };
	}
}

static void recording_saved(void *recording_, const struct snapshot_owner *owner, const char *path)
{
	struct recording *recording = recording_;

	status_line_clear();
	if (recording->recorder.options->saved)
		recording->recorder.options->saved(recording->recorder.options->saved_by, path);
	else if (recording->recorder.options->child)
		run_summary_add(&recording->summary, owner->pid, owner->comm, path);
	else
		print_path(recording, path);
	remember_last_path(recording, owner, path);
}

static void recording_lost(void *recording_, const struct snapshot_owner *owner, int err, const struct reason *why)
{
	struct recording *recording = recording_;

	(void)owner;
	recorder_log_lost(&recording->recorder, err, why);
}

static void end_recording_pass(void *recording_, const struct pass *pass)
{
	struct recording *recording = recording_;

	recorder_log_written_again(&recording->recorder, pass);
}

static int list_named_processes(struct recording *recording, const struct collector *collector)
{
	struct process_view view;

	recording->named_nr = collector__process_nr(collector);
	recording->named = calloc(recording->named_nr + 1, sizeof(*recording->named));
	if (!recording->named)
		return -ENOMEM;
	for (size_t i = 0; i < recording->named_nr; i++) {
		collector__view(collector, i, &view);
		recording->named[i].at_last.pid = view.pid;
	}
	return 0;
}

static void log_total_cost(const struct recording *recording)
{
	struct process_view sum = {};

	for (size_t i = 0; i < recording->named_nr; i++) {
		const struct snapshot_owner *named = &recording->named[i].at_last;

		sum.cpu_ns += named->cpu_ns;
		sum.cost_ns += named->cost_ns;
		if (sum.recorded_ns < named->recorded_ns)
			sum.recorded_ns = named->recorded_ns;
		sum.cost_is_known |= named->cost_is_known;
	}
	log_recording_cost(&sum, recording->named_nr);
}

static void show_named_processes(struct recording *recording)
{
	const struct recording_options *options = recording->recorder.options;
	bool shows_rows = isatty(STDOUT_FILENO) && !options->saved && !options->is_quiet;

	for (size_t i = 0; i < recording->named_nr; i++) {
		char *path = recording->named[i].last_path;

		if (path && shows_rows)
			print_top_rows(path);
		else if (path)
			log_dropped_blocks(path);
		free(path);
	}
	free(recording->named);
}

static const struct recorder_policy named_policy = {
	.clears_traces = true,
	.format_status = format_named_status,
	.end_pass = end_recording_pass,
	.saved = recording_saved,
	.lost = recording_lost,
};

/* Has no status line: the program may write to the terminal, too. */
static const struct recorder_policy child_policy = {
	.clears_traces = true,
	.end_pass = end_recording_pass,
	.saved = recording_saved,
	.lost = recording_lost,
};

int recording_run_until_stopped(const struct recording_options *options, struct collector *collector,
		      int signal_fd)
{
	struct recording recording = {};

	recorder_init(&recording.recorder, options, collector, signal_fd);
	recording.recorder.policy = options->child ? &child_policy : &named_policy;
	recording.recorder.what = &recording;
	if (list_named_processes(&recording, collector))
		return log_failure("out of memory");
	recorder_run(&recording.recorder);
	if (!options->is_quiet)
		log_total_cost(&recording);
	if (recording.recorder.unwritten_nr > 1)
		log_info("%" PRIu64 " snapshots could not be written", recording.recorder.unwritten_nr);
	show_named_processes(&recording);
	run_summary_log(&recording.summary);
	run_summary_release(&recording.summary);
	return recording.recorder.past_trouble ? EXIT_FAILED : recording.recorder.status;
}
