// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/record.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "base/log.h"
#include "collect.h"
#include "record/record_state.h"
#include "snapshot.h"

/*
 * How often to look for processes that the filter lets in for another reason than fork and exec; each interval looks,
 * too.
 */
#define ADMIT_EVERY_NS (5 * SECOND_NS)

/* The least time between early passes, however little room is left. */
#define EARLY_EVERY_NS (SECOND_NS / 2)

/* The most age of the metrics file while nothing else happens. */
#define METRICS_EVERY_NS (15 * SECOND_NS)

static void admit_processes(struct record *record)
{
	struct reason why = {};
	bool fails = collector__admit(record->collector, &why) < 0;

	if (fails)
		record__say_failure(record, &why);
	record__set_trouble(record, TROUBLE_ADMIT, fails);
	record->admitted_ns = monotonic_now_ns();
}

static void count_pass(struct record *record)
{
	if (++record->passes == record->options->count)
		record->stop = true;
}

static void record_run_interval(struct record *record)
{
	admit_processes(record);
	record__pass(record, TRIGGER_INTERVAL);
	record->next_ns += record->options->interval_ns;
	if (record->next_ns < monotonic_now_ns()) /* passes are slower than the interval: skip some, do not pile them up */
		record->next_ns = monotonic_now_ns() + record->options->interval_ns;
	count_pass(record);
}

/* ---- when ---- */

static uint64_t record_earlier_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t record_end_ns(const struct record *record)
{
	uint64_t duration_ns = record->options->duration_ns;

	return duration_ns ? record->started_ns + duration_ns : UINT64_MAX;
}

static int wait_ms(uint64_t now, uint64_t due)
{
	return due > now ? (due - now + 999999) / 1000000 : 0;
}

/* Events wait until they are many, unless a trigger or a budget needs them. Signals and due times do not wait. */
static void record_wait_for_events(const struct record *record)
{
	struct pollfd fds[] = {
		{ .fd = record->signal_fd, .events = POLLIN },
		{ .fd = collector__event_fd(record->collector), .events = POLLIN },
	};
	uint64_t now = monotonic_now_ns(), due = record_earlier_ns(record->next_ns, record_end_ns(record));
	bool is_prompt = record->options->has_budget || triggers__any(&record->options->triggers);

	due = record_earlier_ns(due, notify__due_ns(&record->notify));
	if (record->due.is_soon)
		due = record_earlier_ns(due, record->due_again_ns);
	if (!is_prompt && !poll(fds, 1, wait_ms(now, record_earlier_ns(due, record->looked_ns + LOOK_EVERY_NS))))
		now = monotonic_now_ns();
	if (!fds[0].revents && now < due)
		poll(fds, 2, wait_ms(now, record_earlier_ns(due, now + SECOND_NS)));
}

/* Runs while a pass or a look takes long. Tells the manager that we are alive, and returns whether a signal waits. */
static bool is_signalled(void *record_)
{
	struct record *record = record_;
	struct pollfd signals = { .fd = record->signal_fd, .events = POLLIN };

	notify__alive(&record->notify);
	return poll(&signals, 1, 0) > 0;
}

static void record_consume_signals(struct record *record)
{
	struct signalfd_siginfo info;

	while (read(record->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1) {
			admit_processes(record);
			record__pass(record, TRIGGER_SIGNAL);
			count_pass(record);
			continue;
		}
		if (info.ssi_signo == SIGUSR2)
			continue; /* the traces of all processes are not cleared by accident */
		record->stop = true;
		record->is_fresh = false; /* take the last snapshots now */
	}
}

static void record_stop_if_blind(struct record *record)
{
	if (!collector__is_blind(record->collector))
		return;
	record->stop = true;
	record->status = EXIT_FAILED;
}

/* Takes snapshots of processes whose trigger is due, and of processes that have ended meanwhile. */
static void record_check_triggers(struct record *record)
{
	if (monotonic_now_ns() < record->due_again_ns)
		return;
	due_find(&record->due, record->collector, &record->options->triggers);
	if (!record->due.process_nr)
		return;
	record__pass(record, TRIGGER_END);
	record->due.is_soon = true;
}

static void do_what_is_due(struct record *record)
{
	struct collector_health health;
	uint64_t now = monotonic_now_ns();

	collector__get_health(record->collector, &health);
	if (now >= record_end_ns(record))
		record->stop = true;
	else if (now >= record->next_ns)
		record_run_interval(record);
	else if (health.is_drain_due && now >= record->passed_ns + EARLY_EVERY_NS)
		record__pass(record, TRIGGER_END);
	else if (now >= record->admitted_ns + ADMIT_EVERY_NS)
		admit_processes(record);
	else
		record_check_triggers(record);
	if (monotonic_now_ns() >= record->told_ns + METRICS_EVERY_NS)
		record__tell_metrics(record);
	if (!record->options->is_everyone && !collector__process_nr(record->collector))
		record->stop = record->is_fresh = true;
}

static void record_refresh(struct record *record)
{
	collector__refresh(record->collector);
	record->looked_ns = monotonic_now_ns();
	record->is_fresh = false;
	record__say_notes(record);
	record_stop_if_blind(record);
	notify__alive(&record->notify);
}

/* Starts with the processes that exist now. Later processes are recorded from their exec on. */
static void record_begin(struct record *record)
{
	size_t nr;
	char text[64];

	admit_processes(record);
	record__say_notes(record);
	nr = collector__process_nr(record->collector);
	snprintf(text, sizeof(text), "recording %zu process%s", nr, nr == 1 ? "" : "es");
	puts(text);
	fflush(stdout);
	if (notify__ready(&record->notify, text))
		say("the service manager was not told that the recording has begun");
	record->next_ns = record->started_ns + record->options->interval_ns;
	record__tell_metrics(record);
}

static void record_end(struct record *record)
{
	bool is_over = monotonic_now_ns() >= record_end_ns(record);

	notify__stopping(&record->notify, "taking last snapshots");
	record->is_last = true;
	if (!record->is_fresh)
		record__pass(record, is_over ? TRIGGER_DURATION : TRIGGER_LAST);
	status_line_clear(&record->line);
	record__say_notes(record);
}

static void record_until_told_to_stop(struct record *record)
{
	record_begin(record);
	while (!record->stop) {
		status_line_everyone(&record->line, record->collector,
				     (monotonic_now_ns() - record->started_ns) / SECOND_NS);
		record_wait_for_events(record);
		record_refresh(record);
		record_consume_signals(record);
		if (!record->stop)
			do_what_is_due(record);
	}
	record_end(record);
}

int record_everyone(const struct record_options *options, struct collector *collector, int signal_fd)
{
	struct record record = {
		.record_options = options,
		.options = &options->recording,
		.collector = collector,
		.signal_fd = signal_fd,
		.started_ns = monotonic_now_ns(),
		.report = { .began_wall_ns = clock_now_ns(CLOCK_REALTIME), .max_disk_bytes = options->bounds.max_disk_bytes },
	};
	struct reason why = { "out of memory" };

	last_share_init(&record.last_share, options->recording.interval_ns);
	record.batch = snapshot_batch__new();
	if (record.batch)
		record.archive = archive__open(options->recording.dir, &options->bounds, &why);
	if (!record.archive) {
		snapshot_batch__free(record.batch);
		return say_failure("%s", why.text);
	}
	if (notify__open(&record.notify))
		say("the service manager cannot be told anything: NOTIFY_SOCKET is no address");
	collector__set_between(collector, is_signalled, &record);
	record_until_told_to_stop(&record);
	collector__set_between(collector, NULL, NULL);
	notify__close(&record.notify);
	due_release(&record.due);
	snapshot_batch__free(record.batch);
	archive__close(record.archive);
	return record.trouble ? EXIT_FAILED : record.status;
}
