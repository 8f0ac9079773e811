// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "base/units.h"
#include "collect.h"
#include "record/recorder.h"
#include "render/facts.h"
#include "shared/bpf_types.h"
#include "snapshot.h"

/* ---- what `run` prints at its end: which processes it recorded, and nothing before, amid the program's output ---- */

#define ROWS_SHOWN 40

/* A program run: a process has several if it calls exec. */
struct summed_run {
	pid_t pid;
	char comm[COMM_BYTES];
	char *last_path;
	size_t snapshot_nr;
};

/* Zeroed: it is empty. */
struct run_summary {
	struct summed_run *run;
	size_t run_nr, run_alloc;
};

/* A row of the table. */
struct summary_row {
	const struct summed_run *run;
	uint64_t peak_bytes;
	char end[64];
};

static struct summed_run *find_summed_run(struct run_summary *summary, pid_t pid, const char *comm)
{
	for (size_t i = summary->run_nr; i-- > 0;)
		if (summary->run[i].pid == pid && !strncmp(summary->run[i].comm, comm, COMM_BYTES))
			return &summary->run[i];
	return NULL;
}

/* Adds a snapshot. Without memory for it, the summary leaves the snapshot out, and a line says so. */
static void run_summary_add(struct run_summary *summary, pid_t pid, const char *comm, const char *path)
{
	struct summed_run *run = find_summed_run(summary, pid, comm), new = { .pid = pid };
	char *last_path = strdup(path);

	snprintf(new.comm, sizeof(new.comm), "%s", comm);
	if (!last_path || (!run && array_push(summary, run, new))) {
		log_info("the summary lacks %s: out of memory", path);
		free(last_path);
		return;
	}
	run = run ?: &summary->run[summary->run_nr - 1];
	free(run->last_path);
	run->last_path = last_path;
	run->snapshot_nr++;
}

static void run_summary_release(struct run_summary *summary)
{
	for (size_t i = 0; i < summary->run_nr; i++)
		free(summary->run[i].last_path);
	free(summary->run);
	*summary = (struct run_summary){};
}

static void read_summary_row(struct summary_row *row, const struct summed_run *run)
{
	struct snapshot *snapshot = run->last_path ? snapshot__open(run->last_path, NULL) : NULL;

	*row = (struct summary_row){ .run = run, .end = "?" };
	if (!snapshot)
		return;
	row->peak_bytes = snapshot_facts(snapshot).peak_bytes;
	clean_text(row->end, sizeof(row->end), snapshot__metadata(snapshot, "end") ?: "?");
	snapshot__close(snapshot);
}

static int compare_summary_rows(const void *a_, const void *b_)
{
	const struct summary_row *a = a_, *b = b_;

	if (a->peak_bytes != b->peak_bytes)
		return a->peak_bytes > b->peak_bytes ? -1 : 1;
	return a->run->pid < b->run->pid ? -1 : a->run->pid > b->run->pid;
}

/* The length of the folder of all processes: DIR/HOST of DIR/HOST/COMM.PID/TIME.snap. */
static int common_folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	while (slash && slash > path && *--slash != '/')
		;
	return slash && slash > path ? (int)(slash - path) : (int)strlen(path);
}

static void put_summary_row(const struct summary_row *row)
{
	char comm[4 * COMM_BYTES + 16], process[sizeof(comm) + 16], peak[UNIT_TEXT_MAX];

	snprintf(process, sizeof(process), "%s.%d", clean_text(comm, sizeof(comm), row->run->comm), row->run->pid);
	fprintf(stderr, "%-24s %10s %9zu  %s\n", process, format_size(peak, row->peak_bytes, false),
		row->run->snapshot_nr, row->end);
}

static void put_summary_table(const struct run_summary *summary)
{
	struct summary_row *row = calloc(summary->run_nr, sizeof(*row));

	for (size_t i = 0; row && i < summary->run_nr; i++)
		read_summary_row(&row[i], &summary->run[i]);
	if (row)
		qsort(row, summary->run_nr, sizeof(*row), compare_summary_rows);
	if (row)
		fprintf(stderr, "%-24s %10s %9s  %s\n", "PROCESS", "PEAK", "SNAPSHOTS", "END");
	for (size_t i = 0; row && i < summary->run_nr && i < ROWS_SHOWN; i++)
		put_summary_row(&row[i]);
	if (summary->run_nr > ROWS_SHOWN)
		fprintf(stderr, "… and %zu more\n", summary->run_nr - ROWS_SHOWN);
	free(row);
}

/*
 * Logs it on stderr: a line for one process, a table for several, those with the highest peak first. Peak and end come
 * from the last snapshots.
 */
static void run_summary_log(const struct run_summary *summary)
{
	const char *path = summary->run_nr ? summary->run[0].last_path : NULL;
	size_t snapshot_nr = 0;

	for (size_t i = 0; i < summary->run_nr; i++)
		snapshot_nr += summary->run[i].snapshot_nr;
	if (!path)
		return;
	if (snapshot_nr == 1)
		log_info("snapshot: %s", path);
	else if (summary->run_nr == 1)
		log_info("%zu snapshots in %.*s", snapshot_nr, (int)(strrchr(path, '/') - path), path);
	else
		log_info("%zu processes, %zu snapshots in %.*s", summary->run_nr, snapshot_nr,
			 common_folder_len(path), path);
	if (summary->run_nr > 1)
		put_summary_table(summary);
}

/* ---- the recording --------------------------------------------------------------------------- */

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
