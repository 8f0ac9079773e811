// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/recorder.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "collect.h"

/*
 * How often to look for processes that the filter lets in for another reason than fork and exec; each interval looks,
 * too.
 */
#define ADMIT_EVERY_NS (5 * SECOND_NS)

/* The least time between passes for ended processes: those that end one after another are handled together. */
#define ENDED_EVERY_NS (SECOND_NS / 10)

/* The same in system-wide recording, where such passes only come when room runs out. */
#define EARLY_EVERY_NS (SECOND_NS / 2)

/* How often a budget is checked while the collector's descriptor is not polled. */
#define BUDGET_EVERY_NS (SECOND_NS / 100)

void recorder_init(struct recorder *recorder, const struct recording_options *options, struct collector *collector,
		   int signal_fd)
{
	*recorder = (struct recorder){
		.options = options,
		.collector = collector,
		.signal_fd = signal_fd,
		.started_ns = monotonic_now_ns(),
		.notify.fd = -1,
	};
}

void recorder_log_notes(struct recorder *recorder)
{
	char *note;

	while ((note = collector__next_note(recorder->collector))) {
		log_info("%s", note);
		free(note);
	}
}

void recorder_set_trouble(struct recorder *recorder, enum trouble trouble, bool is_there)
{
	recorder->trouble = is_there ? recorder->trouble | trouble : recorder->trouble & ~trouble;
	recorder->past_trouble |= recorder->trouble;
}

/* ---- when ---- */

static uint64_t earlier_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t duration_end_ns(const struct recorder *recorder)
{
	uint64_t duration_ns = recorder->options->duration_ns;

	return duration_ns ? recorder->started_ns + duration_ns : UINT64_MAX;
}

static uint64_t ended_due_ns(const struct recorder *recorder)
{
	if (!recorder->is_drain_due)
		return UINT64_MAX;
	return recorder->passed_ns + (recorder->options->is_everyone ? EARLY_EVERY_NS : ENDED_EVERY_NS);
}

/* Returns when the loop has something to do if nothing happens. */
static uint64_t next_due_ns(const struct recorder *recorder, uint64_t now)
{
	uint64_t due = earlier_ns(recorder->next_ns, duration_end_ns(recorder));

	due = earlier_ns(due, earlier_ns(ended_due_ns(recorder), notify__due_ns(&recorder->notify)));
	if (recorder->is_look_due)
		due = earlier_ns(due, recorder->look_again_ns);
	return earlier_ns(due, now + SECOND_NS);
}

static int wait_ms(uint64_t now, uint64_t due)
{
	return due > now ? (due - now + 999999) / 1000000 : 0;
}

/*
 * Sleeps until something is due or happens; a second at most. In system-wide recording events wait until they are
 * many, unless a trigger or a budget needs them. In other recordings the collector's descriptor stays readable from
 * the end of a process to its last snapshot, so it is not polled then.
 */
static void wait_for_events(const struct recorder *recorder)
{
	const struct recording_options *options = recorder->options;
	bool is_busy = recorder->is_drain_due && !options->is_everyone;
	bool is_crowd = options->is_everyone && !options->has_budget && !triggers__are_set(&options->triggers);
	struct pollfd fds[] = {
		{ .fd = recorder->signal_fd, .events = POLLIN },
		{ .fd = collector__event_fd(recorder->collector), .events = POLLIN },
	};
	uint64_t now = monotonic_now_ns(), due = next_due_ns(recorder, now);

	if (is_busy && options->has_budget)
		due = earlier_ns(due, now + BUDGET_EVERY_NS);
	if (is_crowd && !poll(fds, 1, wait_ms(now, earlier_ns(due, recorder->looked_ns + LOOK_EVERY_NS))))
		now = monotonic_now_ns();
	if (!fds[0].revents && now < due)
		poll(fds, is_busy ? 1 : 2, wait_ms(now, due));
}

/* ---- what ---- */

void recorder_admit(struct recorder *recorder)
{
	struct reason why = {};
	bool fails = collector__admit(recorder->collector, &why) < 0;

	if (fails)
		log_failure("%s", why.text);
	recorder_set_trouble(recorder, TROUBLE_ADMIT, fails);
	recorder->admitted_ns = monotonic_now_ns();
}

/* Whether no process is left, and none will come. */
static bool is_done(const struct recorder *recorder)
{
	return !recorder->options->is_everyone && !collector__process_nr(recorder->collector);
}

static void run_interval(struct recorder *recorder)
{
	recorder_admit(recorder);
	recorder_pass(recorder, TRIGGER_INTERVAL);
	recorder->next_ns += recorder->options->interval_ns;
	if (recorder->next_ns < monotonic_now_ns()) /* passes are slower than the interval: skip some, do not pile them up */
		recorder->next_ns = monotonic_now_ns() + recorder->options->interval_ns;
}

static void recorder_clear_traces(struct recorder *recorder)
{
	int err = recorder->policy->clears_traces ? collector__clear_all_traces(recorder->collector) : 0;

	if (err)
		recorder->status = log_failure("cannot clear the traces: %s", strerror(-err));
}

/* Once the child has ended, and only processes that it started are left, signals are for us. */
static bool is_for_child(const struct recorder *recorder)
{
	pid_t child = recorder->options->child;

	return child && collector__is_tracing(recorder->collector, child);
}

/*
 * SIGUSR1 takes snapshots now, SIGUSR2 clears the traces, and other signals take the last snapshots. One signal each
 * time: events, notes and the watchdog have their turn before the next one.
 */
static void consume_signal(struct recorder *recorder)
{
	struct signalfd_siginfo info;

	if (read(recorder->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		recorder_admit(recorder);
		recorder_pass(recorder, TRIGGER_SIGNAL);
	} else if (info.ssi_signo == SIGUSR2) {
		recorder_clear_traces(recorder);
	} else if (is_for_child(recorder)) {
		signal_forward(recorder->options->child, &info);
	} else {
		recorder->stop = true;
		recorder->is_fresh = false; /* take the last snapshots now */
	}
}

static void stop_if_blind(struct recorder *recorder)
{
	if (!collector__is_blind(recorder->collector))
		return;
	recorder->stop = true; /* the last snapshots have what is known */
	recorder->status = EXIT_FAILED;
}

static void look_at_events(struct recorder *recorder)
{
	collector__refresh(recorder->collector);
	recorder->looked_ns = monotonic_now_ns();
	recorder->is_fresh = false;
	recorder->is_drain_due = collector__is_drain_due(recorder->collector);
	recorder_log_notes(recorder);
	stop_if_blind(recorder);
	notify__send_alive(&recorder->notify);
	if (recorder->policy->tick)
		recorder->policy->tick(recorder->what);
}

static void do_what_is_due(struct recorder *recorder)
{
	uint64_t now = monotonic_now_ns();

	if (now >= duration_end_ns(recorder))
		recorder->stop = true;
	else if (now >= recorder->next_ns)
		run_interval(recorder);
	else if (now >= ended_due_ns(recorder))
		recorder_pass(recorder, TRIGGER_END);
	else if (now >= recorder->admitted_ns + ADMIT_EVERY_NS)
		recorder_admit(recorder);
	if (!recorder->stop)
		recorder_check_triggers(recorder);
}

static void take_last_snapshots(struct recorder *recorder)
{
	bool is_over = monotonic_now_ns() >= duration_end_ns(recorder);

	notify__send_stopping(&recorder->notify, "taking last snapshots");
	recorder->is_last = true;
	if (!recorder->policy->ends_at_once && !recorder->is_fresh && !is_done(recorder))
		recorder_pass(recorder, is_over ? TRIGGER_DURATION : TRIGGER_LAST);
	status_line_clear();
	recorder_log_notes(recorder);
}

static void show_status(const struct recorder *recorder)
{
	const struct recording_status status = {
		.collector = recorder->collector,
		.snapshot_nr = recorder->saved_nr,
		.seconds = (monotonic_now_ns() - recorder->started_ns) / SECOND_NS,
	};

	if (recorder->policy->format_status && !recorder->options->is_quiet)
		recording_status_show(&status, recorder->policy->format_status);
}

void recorder_run(struct recorder *recorder)
{
	const struct recording_options *options = recorder->options;

	last_share_init(&recorder->last_share, options->is_everyone ? options->interval_ns : UINT64_MAX);
	recorder->next_ns = recorder->started_ns + options->interval_ns;
	recorder_log_notes(recorder);
	while (!recorder->stop && !is_done(recorder)) {
		show_status(recorder);
		wait_for_events(recorder);
		look_at_events(recorder);
		consume_signal(recorder);
		if (!recorder->stop)
			do_what_is_due(recorder);
	}
	take_last_snapshots(recorder);
	free(recorder->due);
}
