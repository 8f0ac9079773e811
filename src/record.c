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
#include "cmd.h"
#include "collect.h"
#include "recording.h"
#include "recording_show.h"

#define SECOND_NS 1000000000ULL

/* Births and ends come in crowds: they are looked at together. */
#define LOOK_EVERY_NS (SECOND_NS / 20)

/* Who has come to be admitted otherwise than by fork and exec is found each interval, and so often. */
#define ADMIT_EVERY_NS (5 * SECOND_NS)

/* Between passes that were not due yet, however little room there is. */
#define EARLY_EVERY_NS (SECOND_NS / 2)

struct record {
	const struct recording_options *options;
	struct collector *collector;
	int signal_fd;
	uint64_t started_ns, looked_ns, admitted_ns, passed_ns;
	uint64_t next_ns; /* the next interval */
	uint64_t passes;  /* of intervals */
	uint64_t saved_nr, unsaved_nr;
	bool is_everyone; /* else there are no more processes to come */
	bool is_failing; /* the last snapshot could not be written, and that was said */
	bool is_fresh;	 /* snapshots of all have just been taken */
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

/* ---- what others do besides ---- */

/* path: of a snapshot that was written; valid until it returns. */
static void after_save(struct record *record, const char *path)
{
	(void)path;
	record->saved_nr++;
}

/* All that a pass has to write is written. One line, and none for an early pass without a snapshot. */
static void after_pass(struct record *record, uint64_t begun_ns, uint64_t saved_before)
{
	uint64_t saved_nr = record->saved_nr - saved_before;
	struct collector_health health;

	record->passed_ns = now_ns();
	if (!record->is_fresh && !saved_nr)
		return;
	collector__get_health(record->collector, &health);
	status_line_clear(&record->line);
	printf("%" PRIu64 " snapshots in %.2f s; %" PRIu64 " processes, %" PRIu64
	       " ended with little, %" PRIu64 " not recorded; bystanders: %" PRIu64 " traps, %.2f s\n",
	       saved_nr, (record->passed_ns - begun_ns) / 1e9, health.processes, health.processes_small,
	       health.processes_dropped, health.bystander_traps, health.bystander_cost_ns / 1e9);
	fflush(stdout);
}

/* After each look at what has happened: 20 times a second at most, once at least. */
static void on_tick(struct record *record)
{
	(void)record;
}

/* ---- a pass ---- */

static void say_notes_between(struct record *record)
{
	char *note;

	while ((note = collector__next_note(record->collector))) {
		status_line_clear(&record->line);
		say("%s", note);
		free(note);
	}
}

static void fail(struct record *record, const struct reason *why)
{
	status_line_clear(&record->line);
	record->status = say_failure("%s", why->text);
}

/* It is tried again with the next snapshot: said when it begins, and when it is over. */
static void lose_snapshot(struct record *record, const struct reason *why)
{
	record->unsaved_nr++;
	if (record->is_failing)
		return;
	record->is_failing = true;
	fail(record, why);
	say("the recording goes on; snapshots are lost till this is mended");
}

static void take_up_again(struct record *record)
{
	if (!record->is_failing)
		return;
	record->is_failing = false;
	status_line_clear(&record->line);
	say("snapshots are written again; %" PRIu64 " were lost", record->unsaved_nr);
	record->unsaved_nr = 0;
}

static void save(struct record *record, size_t i)
{
	struct reason why = { "out of memory" };
	char *path;

	/* It is not tried again, also where it fails. */
	const struct save_options options = { .dir = record->options->dir };

	if (collector__save_view(record->collector, i, &options, &path, &why)) {
		lose_snapshot(record, &why);
		return;
	}
	take_up_again(record);
	after_save(record, path);
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

static void save_all(struct record *record, bool only_ended)
{
	for (size_t i = 0; i < collector__process_nr(record->collector);) {
		struct process_view view;

		collector__view(record->collector, i++, &view);
		if (view.is_vforked || !view.is_unsaved || (only_ended && !view.is_final))
			continue;
		save(record, --i);
		if (view.is_final)
			collector__forget_view(record->collector, i);
		if (look_between(record))
			i = 0; /* others may have that place by now */
	}
}

static void pass(struct record *record, bool only_ended)
{
	uint64_t begun_ns = now_ns(), saved_before = record->saved_nr;
	struct reason why = {};

	if (collector__drain(record->collector, &why)) {
		fail(record, &why);
	} else {
		save_all(record, only_ended);
		collector__end_pass(record->collector);
	}
	record->is_fresh = !only_ended;
	after_pass(record, begun_ns, saved_before);
}

static void admit(struct record *record)
{
	struct reason why = {};

	if (collector__admit(record->collector, &why) < 0)
		fail(record, &why);
	record->admitted_ns = now_ns();
}

static void take_interval(struct record *record)
{
	admit(record);
	pass(record, false);
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

/* News wait till they are many; signals and times do not. */
static void wait_for_events(const struct record *record)
{
	struct pollfd fds[] = {
		{ .fd = record->signal_fd, .events = POLLIN },
		{ .fd = collector__event_fd(record->collector), .events = POLLIN },
	};
	uint64_t now = now_ns(), due = least(record->next_ns, end_ns(record));
	bool has_budget = record->options->has_budget;

	if (!has_budget && !poll(fds, 1, wait_ms(now, least(due, record->looked_ns + LOOK_EVERY_NS))))
		now = now_ns();
	if (!fds[0].revents && now < due)
		poll(fds, 2, wait_ms(now, least(due, now + SECOND_NS)));
}

static void take_signals(struct record *record)
{
	struct signalfd_siginfo info;

	while (read(record->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1) {
			take_interval(record);
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

static void do_what_is_due(struct record *record)
{
	struct collector_health health;
	uint64_t now = now_ns();

	collector__get_health(record->collector, &health);
	if (now >= end_ns(record))
		record->stop = true;
	else if (now >= record->next_ns)
		take_interval(record);
	else if (health.is_drain_due && now >= record->passed_ns + EARLY_EVERY_NS)
		pass(record, true);
	else if (now >= record->admitted_ns + ADMIT_EVERY_NS)
		admit(record);
	if (!record->is_everyone && !collector__process_nr(record->collector))
		record->stop = record->is_fresh = true;
}

static void look(struct record *record)
{
	collector__refresh(record->collector);
	record->looked_ns = now_ns();
	record->is_fresh = false;
	say_notes_between(record);
	stop_if_blind(record);
	on_tick(record);
}

int record_everyone(const struct recording_options *options, struct collector *collector,
		    int signal_fd)
{
	struct record record = {
		.options = options,
		.collector = collector,
		.signal_fd = signal_fd,
		.is_everyone = options->is_everyone,
		.started_ns = now_ns(),
	};

	admit(&record);
	say_notes_between(&record);
	printf("recording %zu processes\n", collector__process_nr(collector));
	fflush(stdout);
	record.next_ns = record.started_ns + options->interval_ns;
	while (!record.stop) {
		status_line_everyone(&record.line, collector,
				     (now_ns() - record.started_ns) / SECOND_NS);
		wait_for_events(&record);
		look(&record);
		take_signals(&record);
		if (!record.stop)
			do_what_is_due(&record);
	}
	if (!record.is_fresh)
		pass(&record, false);
	status_line_clear(&record.line);
	say_notes_between(&record);
	return record.status;
}
