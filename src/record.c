// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/units.h"
#include "cmd.h"
#include "collect.h"
#include "due.h"
#include "record_report.h"
#include "recording_show.h"
#include "service/notify.h"

#define SECOND_NS 1000000000ULL

/* Births and ends come in crowds: they are looked at together. */
#define LOOK_EVERY_NS (SECOND_NS / 20)

/* Who has come to be admitted otherwise than by fork and exec is found each interval, and so often. */
#define ADMIT_EVERY_NS (5 * SECOND_NS)

/* Between passes that were not due yet, however little room there is. */
#define EARLY_EVERY_NS (SECOND_NS / 2)

/* While nothing else happens what is told of ourselves is not older. */
#define METRICS_EVERY_NS (15 * SECOND_NS)

struct record {
	const struct record_options *record_options;
	const struct recording_options *options;
	struct collector *collector;
	struct archive *archive;
	struct notify notify;
	struct record_report report;
	int signal_fd;
	uint64_t started_ns, looked_ns, admitted_ns, passed_ns, told_ns;
	uint64_t next_ns; /* the next interval */
	uint64_t passes;  /* of intervals */
	struct due due;
	uint64_t due_again_ns; /* not before then they are looked for */
	bool is_mute;	  /* the file for Prometheus could not be written, and that was said */
	bool is_fresh;	  /* snapshots of all have just been taken */
	bool stop;
	int status;
	struct status_line line;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void say_note(struct record *record, char *note)
{
	status_line_clear(&record->line);
	say("%s", note);
	free(note);
}

static void say_notes_between(struct record *record)
{
	char *note;

	while ((note = collector__next_note(record->collector)))
		say_note(record, note);
	while ((note = archive__next_note(record->archive)))
		say_note(record, note);
}

static void fail(struct record *record, const struct reason *why)
{
	status_line_clear(&record->line);
	record->status = say_failure("%s", why->text);
}

/* ---- who looks after us ---- */

/* Said when it begins: it is tried again each time. */
static void tell_metrics(struct record *record)
{
	const char *path = record->record_options->metrics;
	struct reason why = {};
	int err = path ? report_metrics(&record->report, record->collector, record->archive, path, &why) : 0;

	if (err && !record->is_mute)
		fail(record, &why);
	record->is_mute = err;
	record->told_ns = now_ns();
}

/* One line, and none for an early pass without a snapshot. */
static void tell_pass(struct record *record, uint64_t begun_ns, uint64_t saved_nr)
{
	char text[256];

	if (!record->is_fresh && !saved_nr)
		return;
	report_line(text, sizeof(text), record->collector, saved_nr, record->passed_ns - begun_ns);
	status_line_clear(&record->line);
	puts(text);
	fflush(stdout);
	notify__status(&record->notify, text);
}

/* ---- a pass ---- */

static enum trigger trigger_of_end(const struct record *record, const struct process_view *view)
{
	return view->is_oom_victim && record->options->triggers.on_oom ? TRIGGER_OOM : TRIGGER_END;
}

static void say_oom_kill(struct record *record, const struct process_view *view, const char *path)
{
	char comm[64];

	status_line_clear(&record->line);
	say("%s (%d) was killed by the OOM killer; its last snapshot is %s",
	    clean_text(comm, sizeof(comm), view->comm), view->pid, path);
}

static void save(struct record *record, size_t i, const struct process_view *view,
		 enum trigger trigger)
{
	const struct save_options options = {
		.dir = record->options->dir,
		.trigger = trigger_name(view->is_final ? trigger_of_end(record, view) : trigger),
		.is_compact = record->options->is_compact,
	};
	struct reason why = { "out of memory" };
	char *path;
	/* It is not tried again, also where it fails. */
	int err = collector__save_view(record->collector, i, &options, &path, &why);

	notify__alive(&record->notify);
	if (err) {
		archive__lost(record->archive, err, &why);
		record->status = EXIT_FAILED;
		return;
	}
	record->report.saved_nr++;
	archive__saved(record->archive, path);
	if (view->is_final && view->is_oom_victim)
		say_oom_kill(record, view, path);
	free(path);
}

/* A file takes 10 ms to be safe on a disk: what happens meanwhile is looked at. */
static bool look_between(struct record *record)
{
	if (now_ns() - record->looked_ns < LOOK_EVERY_NS)
		return false;
	collector__refresh(record->collector);
	record->looked_ns = now_ns();
	return true;
}

/* Whether a pass of which all get a snapshot, or those that are due, has one of this process. */
static enum trigger trigger_in_pass(const struct record *record, const struct process_view *view,
				    enum trigger trigger)
{
	if (view->is_vforked || !view->is_unsaved)
		return TRIGGER_NONE;
	if (view->is_final)
		return TRIGGER_END;
	return trigger != TRIGGER_END ? trigger : due_trigger(&record->due, view->pid);
}

static void save_all(struct record *record, enum trigger trigger)
{
	for (size_t i = 0; i < collector__process_nr(record->collector);) {
		enum trigger because;
		struct process_view view;

		collector__view(record->collector, i, &view);
		because = trigger_in_pass(record, &view, trigger);
		if (because)
			save(record, i, &view, because);
		if (because && look_between(record))
			i = 0; /* others may have that place by now */
		else
			i++;
	}
}

/* TRIGGER_END: of those that have ended, and those that are due. */
static void pass(struct record *record, enum trigger trigger)
{
	uint64_t begun_ns = now_ns(), saved_before = record->report.saved_nr;
	struct reason why = {};
	int err;

	archive__make_room(record->archive);
	err = collector__drain(record->collector, &why);
	record->report.drain_nr++;
	record->report.drain_ns += now_ns() - begun_ns;
	if (err) {
		fail(record, &why);
	} else {
		save_all(record, trigger);
		collector__end_pass(record->collector);
		record->report.last_pass_wall_ns = wall_ns();
	}
	archive__make_room(record->archive);
	record->due.process_nr = 0;
	record->is_fresh = trigger != TRIGGER_END;
	record->passed_ns = now_ns();
	/* The next triggered one leaves as much time to the rest as this one has taken. */
	record->due_again_ns = 2 * record->passed_ns - begun_ns;
	tell_pass(record, begun_ns, record->report.saved_nr - saved_before);
	tell_metrics(record);
}

static void admit(struct record *record)
{
	struct reason why = {};

	if (collector__admit(record->collector, &why) < 0)
		fail(record, &why);
	record->admitted_ns = now_ns();
}

static void take_interval(struct record *record, enum trigger trigger)
{
	admit(record);
	pass(record, trigger);
	record->next_ns += record->options->interval_ns;
	if (record->next_ns < now_ns()) /* slower than the interval: skip, do not pile up */
		record->next_ns = now_ns() + record->options->interval_ns;
	if (++record->passes == record->options->count)
		record->stop = true;
}

/* ---- when ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t end_ns(const struct record *record)
{
	uint64_t duration_ns = record->options->duration_ns;

	return duration_ns ? record->started_ns + duration_ns : UINT64_MAX;
}

static int wait_ms(uint64_t now, uint64_t due)
{
	return due > now ? (due - now + 999999) / 1000000 : 0;
}

/* News wait till they are many, unless a trigger or a budget is waiting for them; signals and times do not. */
static void wait_for_events(const struct record *record)
{
	struct pollfd fds[] = {
		{ .fd = record->signal_fd, .events = POLLIN },
		{ .fd = collector__event_fd(record->collector), .events = POLLIN },
	};
	uint64_t now = now_ns(), due = least(record->next_ns, end_ns(record));
	bool is_prompt = record->options->has_budget || triggers__any(&record->options->triggers);

	due = least(due, notify__due_ns(&record->notify));
	if (record->due.is_soon)
		due = least(due, record->due_again_ns);
	if (!is_prompt && !poll(fds, 1, wait_ms(now, least(due, record->looked_ns + LOOK_EVERY_NS))))
		now = now_ns();
	if (!fds[0].revents && now < due)
		poll(fds, 2, wait_ms(now, least(due, now + SECOND_NS)));
}

static void take_signals(struct record *record)
{
	struct signalfd_siginfo info;

	while (read(record->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1) {
			take_interval(record, TRIGGER_SIGNAL);
			continue;
		}
		if (info.ssi_signo == SIGUSR2)
			continue; /* traces of everybody are not cleared by accident */
		record->stop = true;
		record->is_fresh = false; /* the last one is of now */
	}
}

static void stop_if_blind(struct record *record)
{
	if (!collector__is_blind(record->collector))
		return;
	record->stop = true;
	record->status = EXIT_FAILED;
}

/* Snapshots of those whose trigger says so, and of who has ended meanwhile. */
static void take_due(struct record *record)
{
	if (now_ns() < record->due_again_ns)
		return;
	due_find(&record->due, record->collector, &record->options->triggers);
	if (!record->due.process_nr)
		return;
	pass(record, TRIGGER_END);
	record->due.is_soon = true;
}

static void do_what_is_due(struct record *record)
{
	struct collector_health health;
	uint64_t now = now_ns();

	collector__get_health(record->collector, &health);
	if (now >= end_ns(record))
		record->stop = true;
	else if (now >= record->next_ns)
		take_interval(record, TRIGGER_INTERVAL);
	else if (health.is_drain_due && now >= record->passed_ns + EARLY_EVERY_NS)
		pass(record, TRIGGER_END);
	else if (now >= record->admitted_ns + ADMIT_EVERY_NS)
		admit(record);
	else
		take_due(record);
	if (now_ns() >= record->told_ns + METRICS_EVERY_NS)
		tell_metrics(record);
	if (!record->options->is_everyone && !collector__process_nr(record->collector))
		record->stop = record->is_fresh = true;
}

static void look(struct record *record)
{
	collector__refresh(record->collector);
	record->looked_ns = now_ns();
	record->is_fresh = false;
	say_notes_between(record);
	stop_if_blind(record);
	notify__alive(&record->notify);
}

/* Who is there by now is recorded; those who come are from their exec on. */
static void begin(struct record *record)
{
	char text[64];

	admit(record);
	say_notes_between(record);
	snprintf(text, sizeof(text), "recording %zu processes", collector__process_nr(record->collector));
	puts(text);
	fflush(stdout);
	if (notify__ready(&record->notify, text))
		say("the service manager was not told that the recording has begun");
	record->next_ns = record->started_ns + record->options->interval_ns;
	tell_metrics(record);
}

static void end(struct record *record)
{
	bool is_over = now_ns() >= end_ns(record);

	notify__stopping(&record->notify, "taking last snapshots");
	if (!record->is_fresh)
		pass(record, is_over ? TRIGGER_DURATION : TRIGGER_LAST);
	status_line_clear(&record->line);
	say_notes_between(record);
}

static void record_until_told_to_stop(struct record *record)
{
	begin(record);
	while (!record->stop) {
		status_line_everyone(&record->line, record->collector,
				     (now_ns() - record->started_ns) / SECOND_NS);
		wait_for_events(record);
		look(record);
		take_signals(record);
		if (!record->stop)
			do_what_is_due(record);
	}
	end(record);
}

int record_everyone(const struct record_options *options, struct collector *collector, int signal_fd)
{
	struct record record = {
		.record_options = options,
		.options = &options->recording,
		.collector = collector,
		.signal_fd = signal_fd,
		.started_ns = now_ns(),
		.report = { .began_wall_ns = wall_ns(), .max_disk_bytes = options->bounds.max_disk_bytes },
	};
	struct reason why = { "out of memory" };

	record.archive = archive__open(options->recording.dir, &options->bounds, &why);
	if (!record.archive)
		return say_failure("%s", why.text);
	if (notify__open(&record.notify))
		say("the service manager cannot be told anything: NOTIFY_SOCKET is no address");
	record_until_told_to_stop(&record);
	notify__close(&record.notify);
	due_release(&record.due);
	archive__close(record.archive);
	return record.status;
}
