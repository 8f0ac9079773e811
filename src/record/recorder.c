// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/recorder.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "base/units.h"
#include "collect.h"
#include "snapshot.h"

/* ---- what one user may take ---- */

#define LEAST_NS 500000000ULL

void last_share_init(struct last_share *share, uint64_t interval_ns)
{
	*share = (struct last_share){ .most_ns = interval_ns / 2 > LEAST_NS ? interval_ns / 2 : LEAST_NS };
}

void last_share_advance(struct last_share *share, uint64_t now_ns)
{
	uint64_t earned_ns = (now_ns - share->now_ns) / 2;

	for (uint32_t user = 0; user < USERS_MAX; user++)
		share->taken_ns[user] -= earned_ns < share->taken_ns[user] ? earned_ns : share->taken_ns[user];
	share->now_ns = now_ns;
}

bool last_share_allows(const struct last_share *share, uint32_t user)
{
	return share->taken_ns[user] < share->most_ns;
}

void last_share_consume(struct last_share *share, uint32_t user, uint64_t ns)
{
	share->taken_ns[user] += ns;
}

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

void log_collector_notes(struct collector *collector)
{
	char *note;

	while ((note = collector__next_note(collector))) {
		log_info("%s", note);
		free(note);
	}
}

uint64_t process_rss_bytes(pid_t pid)
{
	uint64_t pages = 0;
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*u %" SCNu64, &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

void recorder_set_trouble(struct recorder *recorder, enum trouble trouble, bool is_there)
{
	recorder->trouble = is_there ? recorder->trouble | trouble : recorder->trouble & ~trouble;
	recorder->past_trouble |= recorder->trouble;
}

/* ---- snapshots that cannot be written ---- */

/* Whether there will be other passes than this one. */
static bool goes_on(const struct recorder *recorder)
{
	const struct recording_options *options = recorder->options;

	return !recorder->is_last && !recorder->stop && (!options->count || recorder->passes + 1 < options->count);
}

/* On a full disk all later snapshots fail, too. */
void recorder_log_lost(struct recorder *recorder, int err, const struct reason *why)
{
	if (!recorder->unwritten_nr++ || recorder->write_err != err)
		log_failure("%s%s", why->text, goes_on(recorder) ? "; the recording goes on" : "");
	recorder->write_err = err;
}

void recorder_log_written_again(struct recorder *recorder, const struct pass *pass)
{
	if (!recorder->unwritten_nr || !pass->saved_nr || pass->lost_nr)
		return;
	log_info("snapshots are written again: %" PRIu64 " could not be", recorder->unwritten_nr);
	recorder->unwritten_nr = 0;
}

/* ---- a snapshot ---- */

static struct snapshot_owner owner_of(const struct process_view *view)
{
	struct snapshot_owner owner = {
		.pid = view->pid,
		.is_last = view->is_final,
		.cpu_ns = view->cpu_ns,
		.cost_ns = view->cost_ns,
		.recorded_ns = view->recorded_ns,
		.cost_is_known = view->cost_is_known,
	};

	snprintf(owner.comm, sizeof(owner.comm), "%s", view->comm);
	return owner;
}

static void count_saved(struct recorder *recorder, const struct snapshot_owner *owner, const char *path)
{
	recorder->saved_nr++;
	recorder->policy->saved(recorder->what, owner, path);
}

static void count_lost(struct recorder *recorder, const struct snapshot_owner *owner, int err,
		       const struct reason *why)
{
	recorder->lost_nr++;
	recorder->policy->lost(recorder->what, owner, err, why);
}

static void count_written(void *recorder_, uint64_t pid, const char *path, int err, const struct reason *why)
{
	struct recorder *recorder = recorder_;
	const struct snapshot_owner *owner = &recorder->batched[recorder->told_nr++];

	notify__send_alive(&recorder->notify);
	if (!err) {
		count_saved(recorder, owner, path);
		return;
	}
	collector__note_unsaved(recorder->collector, pid);
	count_lost(recorder, owner, err, why);
}

static void publish_batch(struct recorder *recorder)
{
	if (!recorder->batch)
		return;
	recorder->told_nr = 0;
	snapshot_batch__publish(recorder->batch, count_written, recorder);
	recorder->batched_nr = 0;
	notify__send_alive(&recorder->notify);
}

/* Publishes the batch when it is full. A snapshot that failed did not get into it. */
static void note_batched(struct recorder *recorder, const struct snapshot_owner *owner)
{
	if (recorder->batch && snapshot_batch__nr(recorder->batch) > recorder->batched_nr)
		recorder->batched[recorder->batched_nr++] = *owner;
	if (recorder->batched_nr >= BATCH_MAX)
		publish_batch(recorder);
}

/* Logs an OOM kill, which the user should not overlook. */
static void log_oom_kill(const struct snapshot_owner *victim, const char *path)
{
	char comm[64];

	log_info("%s (%d) was killed by the OOM killer; its last snapshot is %s",
	    clean_text(comm, sizeof(comm), victim->comm), victim->pid, path);
}

/*
 * A snapshot that a line names is on the disk before the line, so it is not batched. A snapshot that fails is not
 * tried again.
 */
static void save_view(struct recorder *recorder, size_t i, const struct process_view *view, enum trigger trigger)
{
	const struct snapshot_owner owner = owner_of(view);
	bool is_named = view->is_final && view->is_oom_victim;
	const struct save_options options = {
		.dir = recorder->options->dir,
		.file = recorder->options->file,
		.owner = &recorder->options->owner,
		.trigger = trigger_name(trigger),
		.interval_ns = recorder->options->interval_ns,
		.is_compact = recorder->options->is_compact,
		.label = recorder->options->label,
		.label_nr = recorder->options->label_nr,
		.batch = is_named ? NULL : recorder->batch,
	};
	struct reason why = { "out of memory" };
	char *path = NULL;
	int err = collector__save_view(recorder->collector, i, &options, &path, &why);

	if (err)
		count_lost(recorder, &owner, err, &why);
	else if (path)
		count_saved(recorder, &owner, path);
	if (!err && path && is_named)
		log_oom_kill(&owner, path);
	free(path);
	notify__send_alive(&recorder->notify);
	note_batched(recorder, &owner);
}

/* ---- which snapshots ---- */

static void queue_if_due(struct recorder *recorder, size_t i)
{
	const struct trigger_options *triggers = &recorder->options->triggers;
	struct due_process process = {};
	struct process_view view;

	collector__view(recorder->collector, i, &view);
	process = (struct due_process){ view.pid, triggers__decide(triggers, &view) };
	if (!process.trigger)
		recorder->is_look_due |= collector__ring_at(recorder->collector, i, triggers__threshold(triggers, &view));
	else if (array_push(recorder, due, process)) /* no memory: look again soon */
		recorder->is_look_due = true;
}

/*
 * Looks at the triggers of all processes. A process that is not due yet rings the doorbell when it is. The look comes
 * before the drain, so the snapshot shows at least what was live then, even if it is freed right after.
 */
static void find_due(struct recorder *recorder)
{
	recorder->is_look_due = false;
	if (!triggers__are_set(&recorder->options->triggers))
		return;
	for (size_t i = 0; i < collector__process_nr(recorder->collector); i++)
		queue_if_due(recorder, i);
}

static enum trigger due_get_trigger(const struct recorder *recorder, pid_t pid)
{
	for (size_t i = 0; i < recorder->due_nr; i++)
		if (recorder->due[i].pid == pid)
			return recorder->due[i].trigger;
	return TRIGGER_NONE;
}

static bool is_unwanted(const struct recorder *recorder, const struct process_view *view)
{
	return recorder->policy->wants && !recorder->policy->wants(recorder->what, view);
}

/*
 * Returns why the pass takes a snapshot of the process, or TRIGGER_NONE. With TRIGGER_END the pass takes processes
 * that have ended or are due, otherwise all processes.
 */
static enum trigger trigger_in_pass(const struct recorder *recorder, const struct process_view *view,
				    enum trigger trigger)
{
	if (view->is_vforked || !view->is_unsaved)
		return TRIGGER_NONE;
	if (is_unwanted(recorder, view))
		return TRIGGER_NONE;
	if (view->is_final)
		return view->is_oom_victim && recorder->options->triggers.on_oom ? TRIGGER_OOM : TRIGGER_END;
	if (view->is_empty)
		return TRIGGER_NONE;
	return trigger != TRIGGER_END ? trigger : due_get_trigger(recorder, view->pid);
}

#define LAST_PASS_NS (60 * SECOND_NS) /* service managers wait for longer (TimeoutStopSec) */

/* The last pass ends after a minute: a process can make its own snapshot as expensive as it likes. */
static bool is_pass_over(const struct recorder *recorder, uint64_t begun_ns)
{
	return recorder->policy->is_hasty &&
	       (is_told_to_end() || (recorder->is_last && monotonic_now_ns() - begun_ns > LAST_PASS_NS));
}

static void give_up_rest(struct recorder *recorder, enum trigger trigger)
{
	struct process_view view;
	size_t nr = 0;

	for (size_t i = 0; i < collector__process_nr(recorder->collector); i++) {
		collector__view(recorder->collector, i, &view);
		nr += trigger_in_pass(recorder, &view, trigger) != TRIGGER_NONE;
	}
	if (!nr)
		return;
	recorder->lost_nr += nr;
	recorder->status = EXIT_FAILED;
	log_info("%zu last snapshot%s given up: %s", nr, nr == 1 ? " was" : "s were",
	    is_told_to_end() ? "a second signal came" : "the others took a minute");
}

/* ---- a pass ---- */

/* System-wide: looks at what happened meanwhile, because writing many snapshots takes long. */
static bool refresh_between(struct recorder *recorder)
{
	if (!recorder->options->is_system_wide || monotonic_now_ns() - recorder->looked_ns < LOOK_EVERY_NS)
		return false;
	collector__refresh(recorder->collector);
	recorder->looked_ns = monotonic_now_ns();
	return true;
}

/* Whether the next pass may take the snapshot: the user's share is spent. */
static bool can_wait(const struct recorder *recorder, const struct process_view *view)
{
	return view->is_final && !last_share_allows(&recorder->last_share, view->user);
}

/* Forgets a process that has ended. */
static void save_next(struct recorder *recorder, size_t i, const struct process_view *view, enum trigger trigger)
{
	uint64_t begun_ns = monotonic_now_ns();

	save_view(recorder, i, view, trigger);
	if (!view->is_final)
		return;
	last_share_consume(&recorder->last_share, view->user, monotonic_now_ns() - begun_ns);
	collector__forget_view(recorder->collector, i);
}

/*
 * Takes snapshots within each user's share; whole: also beyond it. Returns false if the pass ended before it had all.
 */
static bool save_some(struct recorder *recorder, enum trigger trigger, uint64_t begun_ns, bool whole)
{
	for (size_t i = 0; i < collector__process_nr(recorder->collector);) {
		enum trigger because;
		struct process_view view;

		collector__view(recorder->collector, i, &view);
		because = trigger_in_pass(recorder, &view, trigger);
		if (!because && view.is_final && is_unwanted(recorder, &view)) {
			collector__forget_view(recorder->collector, i);
			continue;
		}
		if (!because || (!whole && can_wait(recorder, &view))) {
			i++;
			continue;
		}
		if (is_pass_over(recorder, begun_ns)) {
			publish_batch(recorder);
			if (recorder->is_last)
				give_up_rest(recorder, trigger);
			return false;
		}
		save_next(recorder, i, &view, because);
		i += !view.is_final;
		if (refresh_between(recorder))
			i = 0; /* other processes may have these indexes now */
	}
	publish_batch(recorder);
	return true;
}

/*
 * Returns false if the pass ended before it had all its snapshots. The last pass also takes those beyond a user's
 * share.
 */
static bool save_all(struct recorder *recorder, enum trigger trigger, uint64_t begun_ns)
{
	last_share_advance(&recorder->last_share, begun_ns);
	return save_some(recorder, trigger, begun_ns, false) &&
	       (!recorder->is_last || save_some(recorder, trigger, begun_ns, true));
}

/* Gives up the last snapshots of processes that have ended: the loop ends with the last process. */
static void forget_ended(struct recorder *recorder)
{
	struct process_view view;

	for (size_t i = collector__process_nr(recorder->collector); i-- > 0;) {
		collector__view(recorder->collector, i, &view);
		if (!view.has_ended)
			continue;
		collector__forget_view(recorder->collector, i);
		recorder->status = EXIT_FAILED;
	}
}

/* Returns whether the pass had all its snapshots. */
static bool drain_and_save(struct recorder *recorder, enum trigger trigger, uint64_t begun_ns)
{
	struct reason why = {};
	int err = collector__drain(recorder->collector, &why);
	bool is_whole;

	notify__send_alive(&recorder->notify);
	recorder->drain_nr++;
	recorder->drain_ns += monotonic_now_ns() - begun_ns;
	recorder_set_trouble(recorder, TROUBLE_DRAIN, err);
	if (err) {
		log_failure("%s", why.text);
		if (!recorder->options->is_system_wide)
			forget_ended(recorder);
		return false;
	}
	is_whole = save_all(recorder, trigger, begun_ns);
	if (is_whole)
		collector__end_pass(recorder->collector);
	recorder->last_pass_wall_ns = clock_now_ns(CLOCK_REALTIME);
	return is_whole;
}

/*
 * Drains the accounting of all processes once, and writes the snapshots. TRIGGER_END: only of processes that have
 * ended or are due.
 */
static void recorder_pass(struct recorder *recorder, enum trigger trigger)
{
	uint64_t saved_before = recorder->saved_nr, lost_before = recorder->lost_nr;
	struct pass pass = { .trigger = trigger, .begun_ns = monotonic_now_ns() };

	if (recorder->policy->begin_pass)
		recorder->policy->begin_pass(recorder->what);
	recorder->is_fresh = drain_and_save(recorder, trigger, pass.begun_ns) && trigger != TRIGGER_END;
	if (recorder->is_fresh && ++recorder->passes == recorder->options->count)
		recorder->stop = true;
	recorder->due_nr = 0;
	recorder->is_drain_due = false;
	recorder->passed_ns = monotonic_now_ns();
	pass.saved_nr = recorder->saved_nr - saved_before;
	pass.lost_nr = recorder->lost_nr - lost_before;
	/* A pass without a snapshot does not show that snapshots can be written again. */
	if (pass.saved_nr || pass.lost_nr)
		recorder_set_trouble(recorder, TROUBLE_SAVE, pass.lost_nr);
	recorder->policy->end_pass(recorder->what, &pass);
}

/*
 * Takes snapshots of processes whose trigger is due, and of processes that have ended meanwhile. Processes go on growing
 * meanwhile, so the next look is after as much time as this pass took. So one pass serves many due processes, and such
 * passes take half of the time at most.
 */
static void recorder_check_triggers(struct recorder *recorder)
{
	uint64_t begun_ns = monotonic_now_ns();

	if (begun_ns < recorder->look_again_ns)
		return;
	find_due(recorder);
	if (!recorder->due_nr)
		return;
	recorder_pass(recorder, TRIGGER_END);
	recorder->is_look_due = true;
	recorder->look_again_ns = 2 * recorder->passed_ns - begun_ns;
}

/* ---- when something is due ---- */

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
	return recorder->passed_ns + (recorder->options->is_system_wide ? EARLY_EVERY_NS : ENDED_EVERY_NS);
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
	bool is_busy = recorder->is_drain_due && !options->is_system_wide;
	bool is_crowd = options->is_system_wide && !options->has_budget && !triggers__are_set(&options->triggers);
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

/* ---- what is done then ---- */

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
	return !recorder->options->is_system_wide && !collector__process_nr(recorder->collector);
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
	log_collector_notes(recorder->collector);
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
	log_collector_notes(recorder->collector);
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

	last_share_init(&recorder->last_share, options->is_system_wide ? options->interval_ns : UINT64_MAX);
	recorder->next_ns = recorder->started_ns + options->interval_ns;
	log_collector_notes(recorder->collector);
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
