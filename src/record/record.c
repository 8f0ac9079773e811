// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/record.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/reason.h"
#include "collect.h"
#include "record/recorder.h"
#include "snapshot.h"

/* The most age of the metrics file while nothing else happens. */
#define METRICS_EVERY_NS (15 * SECOND_NS)

struct record {
	struct recorder recorder;
	struct archive *archive;
	const char *metrics;
	uint64_t metrics_ns; /* when they were written */
};

/* ---- reports ---- */

static void log_archive_notes(struct record *record)
{
	char *note;

	while ((note = archive__next_note(record->archive)))
		recorder_log_note(&record->recorder, note);
}

/* Logs an error only when it begins: the file is written again after each pass. */
static void write_metrics(struct record *record)
{
	struct recorder *recorder = &record->recorder;
	struct reason why = {};
	int err = record->metrics ? report_metrics(&recorder->report, recorder->collector, record->archive,
						   record->metrics, &why) : 0;

	if (err && !(recorder->trouble & TROUBLE_METRICS))
		recorder_log_failure(recorder, &why);
	recorder_set_trouble(recorder, TROUBLE_METRICS, err);
	record->metrics_ns = recorder_now_ns();
}

static void record_tick(void *record_)
{
	struct record *record = record_;

	log_archive_notes(record);
	if (recorder_now_ns() >= record->metrics_ns + METRICS_EVERY_NS)
		write_metrics(record);
}

/* Prints one line for a pass; none for an early pass without a snapshot. */
static void report_pass(struct record *record, const struct pass *pass)
{
	struct recorder *recorder = &record->recorder;
	char text[256];

	if (pass->trigger == TRIGGER_END && !pass->saved_nr)
		return;
	report_line(text, sizeof(text), recorder->collector, pass->saved_nr, recorder_now_ns() - pass->begun_ns);
	status_line_clear(&recorder->line);
	puts(text);
	fflush(stdout);
	notify__status(&recorder->notify, text);
}

static void record_begin_pass(void *record_)
{
	struct record *record = record_;

	archive__make_room(record->archive);
}

static void record_end_pass(void *record_, const struct pass *pass)
{
	struct record *record = record_;

	archive__make_room(record->archive);
	report_pass(record, pass);
	write_metrics(record);
}

/* ---- snapshots ---- */

static void record_saved(void *record_, const struct snapshot_owner *owner, const char *path)
{
	struct record *record = record_;

	(void)owner;
	archive__saved(record->archive, path);
}

static void record_lost(void *record_, const struct snapshot_owner *owner, int err, const struct reason *why)
{
	struct record *record = record_;

	archive__lost(record->archive, err, why);
	if (!owner->is_last)
		return;
	archive__lost_last(record->archive, owner->comm, owner->pid);
	record->recorder.status = EXIT_FAILED;
}

/* ---- begin and end ---- */

/* Runs while a pass or a look takes long. Tells the manager that we are alive, and returns whether a signal waits. */
static bool is_signalled(void *record_)
{
	struct recorder *recorder = &((struct record *)record_)->recorder;
	struct pollfd signals = { .fd = recorder->signal_fd, .events = POLLIN };

	notify__alive(&recorder->notify);
	return poll(&signals, 1, 0) > 0;
}

/* Starts with the processes that exist now. Later processes are recorded from their exec on. */
static void record_begin(struct record *record)
{
	struct recorder *recorder = &record->recorder;
	size_t nr;
	char text[64];

	recorder_admit(recorder);
	recorder_log_notes(recorder);
	log_archive_notes(record);
	nr = collector__process_nr(recorder->collector);
	snprintf(text, sizeof(text), "recording %zu process%s", nr, nr == 1 ? "" : "es");
	puts(text);
	fflush(stdout);
	if (notify__ready(&recorder->notify, text))
		say("the service manager was not told that the recording has begun");
	write_metrics(record);
}

static void record_run(struct record *record)
{
	struct collector *collector = record->recorder.collector;

	if (notify__open(&record->recorder.notify))
		say("the service manager cannot be told anything: NOTIFY_SOCKET is no address");
	collector__set_between(collector, is_signalled, record);
	record_begin(record);
	recorder_run(&record->recorder);
	log_archive_notes(record);
	collector__set_between(collector, NULL, NULL);
	notify__close(&record->recorder.notify);
}

int record_everyone(const struct record_options *options, struct collector *collector, int signal_fd)
{
	static const struct recorder_policy policy = {
		.is_hasty = true,
		.format_status = format_record_status,
		.begin_pass = record_begin_pass,
		.end_pass = record_end_pass,
		.tick = record_tick,
		.saved = record_saved,
		.lost = record_lost,
	};
	struct record record = {
		.recorder = {
			.policy = &policy,
			.what = &record,
			.options = &options->recording,
			.collector = collector,
			.signal_fd = signal_fd,
			.started_ns = recorder_now_ns(),
			.batch = snapshot_batch__new(),
			.report = { .began_wall_ns = recorder_time_ns(CLOCK_REALTIME),
				    .max_disk_bytes = options->bounds.max_disk_bytes },
		},
		.metrics = options->metrics,
	};
	struct reason why = { "out of memory" };

	if (record.recorder.batch)
		record.archive = archive__open(options->recording.dir, &options->bounds, &why);
	if (record.archive)
		record_run(&record);
	else
		record.recorder.status = say_failure("%s", why.text);
	snapshot_batch__free(record.recorder.batch);
	archive__close(record.archive);
	return record.recorder.trouble ? EXIT_FAILED : record.recorder.status;
}
