// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect.h"
#include "record/recorder.h"
#include "snapshot.h"

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

/* Whether a signal to end has come that the loop has not read yet. */
static bool is_told_to_end(void)
{
	sigset_t waiting;

	return !sigpending(&waiting) && (sigismember(&waiting, SIGTERM) || sigismember(&waiting, SIGINT));
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
	if (!recorder->options->is_everyone || monotonic_now_ns() - recorder->looked_ns < LOOK_EVERY_NS)
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
		if (!recorder->options->is_everyone)
			forget_ended(recorder);
		return false;
	}
	is_whole = save_all(recorder, trigger, begun_ns);
	if (is_whole)
		collector__end_pass(recorder->collector);
	recorder->last_pass_wall_ns = clock_now_ns(CLOCK_REALTIME);
	return is_whole;
}

void recorder_pass(struct recorder *recorder, enum trigger trigger)
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
 * Processes go on growing meanwhile, so the next look is after as much time as this pass took. So one pass serves many
 * due processes, and such passes take half of the time at most.
 */
void recorder_check_triggers(struct recorder *recorder)
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
