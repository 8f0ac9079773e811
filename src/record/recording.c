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
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/retention/outage.h"
#include "base/reason.h"
#include "base/units.h"
#include "base/log.h"
#include "collect.h"
#include "record/due.h"
#include "record/recording_show.h"

/* A process that was named, for the rows that are shown at the end. */
struct named {
	pid_t pid;
	char *last_path;
	uint64_t cpu_ns, cost_ns; /* at the last snapshot */
	bool cost_is_known;
};

struct recording {
	const struct recording_options *options;
	struct collector *collector;
	struct named *named;
	size_t named_nr;
	int signal_fd;
	uint64_t started_ns, next_ns;
	uint64_t ended_ns; /* when ended processes were last handled */
	uint64_t passes;
	struct due due;
	uint64_t due_again_ns; /* triggers are not looked at before then */
	struct status_line line;
	struct outage outage;
	bool is_fresh;	 /* snapshots of all processes have just been taken */
	bool stop;
	bool is_mute; /* writing to standard output fails */
	int status;
};

static void recording_fail(struct recording *recording, const struct reason *why)
{
	status_line_clear(&recording->line);
	recording->status = say_failure("%s", why->text);
}

/* A reader that has gone away (EPIPE) needs no message. The snapshots are written in any case. */
static void print_path(struct recording *recording, const char *path)
{
	int err;

	if (puts(path) >= 0 && !fflush(stdout))
		return;
	err = errno;
	clearerr(stdout);
	if (!recording->is_mute && err != EPIPE)
		say_failure("cannot write to standard output: %s; the snapshots go on",
			    strerror(err));
	recording->is_mute = true;
	recording->status = EXIT_FAILED;
}

static void remember_last_path(struct recording *recording, const struct process_view *view, char *path)
{
	for (size_t i = 0; i < recording->named_nr; i++) {
		struct named *named = &recording->named[i];

		if (named->pid != view->pid)
			continue;
		free(named->last_path);
		named->last_path = path;
		named->cpu_ns = view->cpu_ns;
		named->cost_ns = view->cost_ns;
		named->cost_is_known = view->cost_is_known;
		return;
	}
	free(path);
}

/* Logs the first failure only: on a full disk all later snapshots fail, too. */
static void report_unsaved(struct recording *recording, int err, const struct reason *why)
{
	recording->status = EXIT_FAILED;
	if (outage_lost(&recording->outage, err))
		recording_fail(recording, why);
}

static void report_outage_over(struct recording *recording)
{
	uint64_t lost = outage_end_pass(&recording->outage);

	if (!lost)
		return;
	status_line_clear(&recording->line);
	say("snapshots are written again: %" PRIu64 " could not be", lost);
}

/* Logs an OOM kill, which the user should not overlook. */
static void recording_log_oom_kill(const struct process_view *view, const char *path)
{
	char comm[64];

	say("%s (%d) was killed by the OOM killer; its last snapshot is %s",
	    clean_text(comm, sizeof(comm), view->comm), view->pid, path);
}

static enum trigger recording_end_trigger(const struct recording *recording, const struct process_view *view)
{
	return view->is_oom_victim && recording->options->triggers.on_oom ? TRIGGER_OOM : TRIGGER_END;
}

static void recording_save(struct recording *recording, const struct process_view *view, enum trigger trigger)
{
	const struct save_options options = {
		.dir = recording->options->dir,
		.trigger = trigger_name(view->is_final ? recording_end_trigger(recording, view) : trigger),
		.is_compact = recording->options->is_compact,
		.label = recording->options->label,
		.label_nr = recording->options->label_nr,
	};
	struct reason why = {};
	char *path;
	int err = collector__save(recording->collector, view->pid, &options, &path, &why);

	if (err) {
		report_unsaved(recording, err, &why);
		return;
	}
	outage_saved(&recording->outage);
	status_line_clear(&recording->line);
	print_path(recording, path);
	if (view->is_final && view->is_oom_victim)
		recording_log_oom_kill(view, path);
	remember_last_path(recording, view, path);
}

static void recording_save_all(struct recording *recording, enum trigger trigger)
{
	for (size_t i = 0; i < collector__process_nr(recording->collector); i++) {
		struct process_view view;

		collector__view(recording->collector, i, &view);
		if (!view.is_vforked && view.is_drained && (view.is_final || trigger != TRIGGER_END))
			recording_save(recording, &view, trigger);
	}
	report_outage_over(recording);
}

/* Stops processes that have ended, whether their snapshot was written or not: trying again might never end. */
static void stop_ended(struct recording *recording, bool drained)
{
	for (size_t i = collector__process_nr(recording->collector); i-- > 0;) {
		struct process_view view;

		collector__view(recording->collector, i, &view);
		if (drained ? view.is_final : view.has_ended)
			collector__stop(recording->collector, view.pid);
	}
}

/* Drains the accounting once, and takes a snapshot of each process. TRIGGER_END: only of processes that have ended. */
static void take_snapshots(struct recording *recording, enum trigger trigger)
{
	struct reason why = {};
	bool drained = !collector__drain(recording->collector, &why);

	if (drained)
		recording_save_all(recording, trigger);
	else
		recording_fail(recording, &why);
	stop_ended(recording, drained);
	recording->ended_ns = monotonic_now_ns();
	if (trigger == TRIGGER_END || !drained)
		return;
	recording->is_fresh = true;
	if (++recording->passes == recording->options->count)
		recording->stop = true;
}

/* Leaves out processes that have ended meanwhile: they are handled like all others that end. */
static void save_due(struct recording *recording)
{
	for (size_t i = 0; i < collector__process_nr(recording->collector); i++) {
		enum trigger trigger;
		struct process_view view;

		collector__view(recording->collector, i, &view);
		trigger = due_trigger(&recording->due, view.pid);
		if (trigger && view.is_drained && !view.is_final && !view.is_vforked)
			recording_save(recording, &view, trigger);
	}
}

/*
 * Takes snapshots of the processes that are due. Processes go on growing meanwhile, so the next look is after as much
 * time as this pass took. So one pass serves many due processes, and such passes take half of the time at most.
 */
static void recording_check_triggers(struct recording *recording)
{
	uint64_t begun_ns = monotonic_now_ns();
	struct reason why = {};

	if (begun_ns < recording->due_again_ns)
		return;
	due_find(&recording->due, recording->collector, &recording->options->triggers);
	if (!recording->due.process_nr)
		return;
	if (collector__drain(recording->collector, &why)) {
		recording_fail(recording, &why);
		return;
	}
	save_due(recording);
	recording->due.is_soon = true;
	recording->due_again_ns = monotonic_now_ns() + (monotonic_now_ns() - begun_ns);
}

static bool all_done(const struct recording *recording)
{
	return !collector__process_nr(recording->collector);
}

static uint64_t recording_end_ns(const struct recording *recording)
{
	uint64_t duration_ns = recording->options->duration_ns;

	return duration_ns ? recording->started_ns + duration_ns : UINT64_MAX;
}

/* Once the child has ended, and only processes that it started are left, signals are for us. */
static bool is_for_child(const struct recording *recording)
{
	pid_t child = recording->options->child;

	return child && collector__is_tracing(recording->collector, child);
}

static void recording_clear_traces(struct recording *recording)
{
	int err = collector__clear_all_traces(recording->collector);

	if (err)
		recording->status = say_failure("cannot clear the traces: %s", strerror(-err));
}

/* SIGUSR1 takes snapshots now, SIGUSR2 clears the traces, and other signals take the last snapshots. */
static void recording_consume_signals(struct recording *recording)
{
	struct signalfd_siginfo info;

	while (read(recording->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1) {
			take_snapshots(recording, TRIGGER_SIGNAL);
			continue;
		}
		if (info.ssi_signo == SIGUSR2) {
			recording_clear_traces(recording);
			continue;
		}
		if (is_for_child(recording)) {
			pass_signal_on(recording->options->child, &info);
			continue;
		}
		recording->stop = true;
		recording->is_fresh = false; /* take the last snapshots now */
	}
}

/* How often the budget is checked while the collector's descriptor is not polled. */
#define BUDGET_EVERY_NS (SECOND_NS / 100)

/* Processes that end one after another are handled together. */
#define ENDED_EVERY_NS (SECOND_NS / 10)

static bool any_ended(const struct recording *recording)
{
	struct process_view view;

	for (size_t i = 0; i < collector__process_nr(recording->collector); i++) {
		collector__view(recording->collector, i, &view);
		if (view.has_ended && !view.is_vforked)
			return true;
	}
	return false;
}

/* Returns when ended processes are due: at once, unless some have just been handled. */
static uint64_t ended_due_ns(const struct recording *recording)
{
	return any_ended(recording) ? recording->ended_ns + ENDED_EVERY_NS : UINT64_MAX;
}

static uint64_t recording_earlier_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Sleeps until something is due or happens; a second at most. */
static void recording_wait_for_events(const struct recording *recording)
{
	uint64_t now = monotonic_now_ns(), ended = ended_due_ns(recording), due = now + SECOND_NS;
	struct pollfd fds[] = {
		{ .fd = recording->signal_fd, .events = POLLIN },
		{ .fd = collector__event_fd(recording->collector), .events = POLLIN },
	};

	due = recording_earlier_ns(due, recording_earlier_ns(recording->next_ns, recording_end_ns(recording)));
	due = recording_earlier_ns(due, ended);
	if (recording->due.is_soon)
		due = recording_earlier_ns(due, recording->due_again_ns);
	if (recording->options->has_budget && ended != UINT64_MAX)
		due = recording_earlier_ns(due, now + BUDGET_EVERY_NS);
	/* The collector's descriptor is not polled then: it stays readable until ended processes are handled. */
	poll(fds, ended == UINT64_MAX ? 2 : 1, due > now ? (due - now + 999999) / 1000000 : 0);
}

static void recording_run_interval(struct recording *recording)
{
	uint64_t interval_ns = recording->options->interval_ns;

	take_snapshots(recording, TRIGGER_INTERVAL);
	recording->next_ns += interval_ns;
	/* Passes are slower than the interval: skip some, do not pile them up. */
	if (recording->next_ns < monotonic_now_ns())
		recording->next_ns = monotonic_now_ns() + interval_ns;
}

static void log_notes_between(struct recording *recording)
{
	char *note = collector__next_note(recording->collector);

	if (!note)
		return;
	status_line_clear(&recording->line);
	say("%s", note);
	free(note);
	say_notes(recording->collector);
}

/* Stops. The last snapshot has what is known. */
static void recording_stop_if_blind(struct recording *recording)
{
	if (!collector__is_blind(recording->collector))
		return;
	recording->stop = true;
	recording->status = EXIT_FAILED;
}

static void recording_run(struct recording *recording)
{
	say_notes(recording->collector);
	recording->started_ns = monotonic_now_ns();
	recording->next_ns = recording->started_ns + recording->options->interval_ns;
	while (!recording->stop && !all_done(recording)) {
		status_line_show(&recording->line, recording->collector,
				 (monotonic_now_ns() - recording->started_ns) / SECOND_NS);
		recording_wait_for_events(recording);
		collector__refresh(recording->collector);
		log_notes_between(recording);
		recording->is_fresh = false;
		recording_stop_if_blind(recording);
		recording_consume_signals(recording);
		if (monotonic_now_ns() >= recording_end_ns(recording))
			recording->stop = true;
		else if (!recording->stop && monotonic_now_ns() >= ended_due_ns(recording))
			take_snapshots(recording, TRIGGER_END);
		else if (!recording->stop && monotonic_now_ns() >= recording->next_ns)
			recording_run_interval(recording);
		if (!recording->stop)
			recording_check_triggers(recording);
	}
	if (!recording->is_fresh && !all_done(recording))
		take_snapshots(recording, monotonic_now_ns() >= recording_end_ns(recording) ? TRIGGER_DURATION :
										      TRIGGER_LAST);
	status_line_clear(&recording->line);
	say_notes(recording->collector);
}

static int list_named_processes(struct recording *recording)
{
	struct process_view view;

	recording->named_nr = collector__process_nr(recording->collector);
	recording->named = calloc(recording->named_nr + 1, sizeof(*recording->named));
	if (!recording->named)
		return -ENOMEM;
	for (size_t i = 0; i < recording->named_nr; i++) {
		collector__view(recording->collector, i, &view);
		recording->named[i].pid = view.pid;
	}
	return 0;
}

static void log_total_cost(const struct recording *recording)
{
	struct process_view sum = {};

	for (size_t i = 0; i < recording->named_nr; i++) {
		const struct named *named = &recording->named[i];

		sum.cpu_ns += named->cpu_ns;
		sum.cost_ns += named->cost_ns;
		sum.cost_is_known |= named->cost_is_known;
	}
	say_cost(&sum, recording->named_nr);
}

int record_until_told(const struct recording_options *options, struct collector *collector,
		      int signal_fd)
{
	struct recording recording = {
		.options = options,
		.collector = collector,
		.signal_fd = signal_fd,
	};

	if (list_named_processes(&recording))
		return say_failure("out of memory");
	recording_run(&recording);
	log_total_cost(&recording);
	if (recording.outage.lost > 1)
		say("%" PRIu64 " snapshots could not be written", recording.outage.lost);
	for (size_t i = 0; i < recording.named_nr; i++) {
		char *path = recording.named[i].last_path;

		if (path && isatty(STDOUT_FILENO))
			show_top(path);
		else if (path)
			say_dropped(path);
		free(path);
	}
	free(recording.named);
	due_release(&recording.due);
	return recording.status;
}
