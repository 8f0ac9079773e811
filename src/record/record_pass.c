// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/reason.h"
#include "base/units.h"
#include "base/log.h"
#include "collect.h"
#include "record/record_state.h"
#include "snapshot.h"

static void record_log_note(struct record *record, char *note)
{
	status_line_clear(&record->line);
	say("%s", note);
	free(note);
}

void record__say_notes(struct record *record)
{
	char *note;

	while ((note = collector__next_note(record->collector)))
		record_log_note(record, note);
	while ((note = archive__next_note(record->archive)))
		record_log_note(record, note);
}

void record__say_failure(struct record *record, const struct reason *why)
{
	status_line_clear(&record->line);
	say_failure("%s", why->text);
}

void record__set_trouble(struct record *record, enum trouble trouble, bool is_there)
{
	record->trouble = is_there ? record->trouble | trouble : record->trouble & ~trouble;
}

/* ---- reports ---- */

/* Logs an error only when it begins: the file is written again after each pass. */
void record__tell_metrics(struct record *record)
{
	const char *path = record->record_options->metrics;
	struct reason why = {};
	int err = path ? report_metrics(&record->report, record->collector, record->archive, path, &why) : 0;

	if (err && !(record->trouble & TROUBLE_METRICS))
		record__say_failure(record, &why);
	record__set_trouble(record, TROUBLE_METRICS, err);
	record->told_ns = monotonic_now_ns();
}

/* Prints one line for a pass; none for an early pass without a snapshot. */
static void report_pass(struct record *record, uint64_t begun_ns, uint64_t saved_nr)
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

static enum trigger record_end_trigger(const struct record *record, const struct process_view *view)
{
	return view->is_oom_victim && record->options->triggers.on_oom ? TRIGGER_OOM : TRIGGER_END;
}

static void record_log_oom_kill(struct record *record, const struct process_view *view, const char *path)
{
	char comm[64];

	status_line_clear(&record->line);
	say("%s (%d) was killed by the OOM killer; its last snapshot is %s",
	    clean_text(comm, sizeof(comm), view->comm), view->pid, path);
}

static void count_saved(struct record *record, const char *path)
{
	record->report.saved_nr++;
	archive__saved(record->archive, path);
}

static void count_lost(struct record *record, const struct batched *lost, int err, const struct reason *why)
{
	archive__lost(record->archive, err, why);
	record->lost_nr++;
	if (!lost->is_last)
		return;
	archive__lost_last(record->archive, lost->comm, lost->pid);
	record->status = EXIT_FAILED;
}

static void count_written(void *record_, uint64_t pid, const char *path, int err,
			  const struct reason *why)
{
	struct record *record = record_;
	const struct batched *written = &record->batched[record->told_nr++];

	notify__alive(&record->notify);
	if (!err) {
		count_saved(record, path);
		return;
	}
	collector__note_unsaved(record->collector, pid);
	count_lost(record, written, err, why);
}

static void publish_batch(struct record *record)
{
	record->told_nr = 0;
	snapshot_batch__publish(record->batch, count_written, record);
	record->batched_nr = 0;
	notify__alive(&record->notify);
}

/* Notes which process's snapshot comes next. If it does not get into the batch, the next snapshot takes its place. */
static const struct batched *note_next(struct record *record, const struct process_view *view)
{
	struct batched *next = &record->batched[record->batched_nr];

	*next = (struct batched){ .pid = view->pid, .is_last = view->is_final };
	snprintf(next->comm, sizeof(next->comm), "%s", view->comm);
	return next;
}

/*
 * A snapshot that a line names is on the disk before the line, so it is not batched. A snapshot that fails is not
 * tried again.
 */
static void record_save(struct record *record, size_t i, const struct process_view *view,
			enum trigger trigger)
{
	bool is_told = view->is_final && view->is_oom_victim;
	const struct save_options options = {
		.dir = record->options->dir,
		.trigger = trigger_name(view->is_final ? record_end_trigger(record, view) : trigger),
		.is_compact = record->options->is_compact,
		.label = record->options->label,
		.label_nr = record->options->label_nr,
		.batch = is_told ? NULL : record->batch,
	};
	const struct batched *next = note_next(record, view);
	struct reason why = { "out of memory" };
	char *path = NULL;
	int err = collector__save_view(record->collector, i, &options, &path, &why);

	if (err) {
		count_lost(record, next, err, &why);
	} else if (is_told) {
		count_saved(record, path);
		record_log_oom_kill(record, view, path);
	}
	record->batched_nr = snapshot_batch__nr(record->batch);
	free(path);
	notify__alive(&record->notify);
	if (snapshot_batch__nr(record->batch) >= BATCH_MAX)
		publish_batch(record);
}

/* Looks at what happened meanwhile: writing may take long. */
static bool refresh_between(struct record *record)
{
	if (monotonic_now_ns() - record->looked_ns < LOOK_EVERY_NS)
		return false;
	collector__refresh(record->collector);
	record->looked_ns = monotonic_now_ns();
	return true;
}

/*
 * Returns why the pass takes a snapshot of the process, or TRIGGER_NONE. With TRIGGER_END the pass takes processes
 * that have ended or are due, otherwise all processes.
 */
static enum trigger trigger_in_pass(const struct record *record, const struct process_view *view,
				    enum trigger trigger)
{
	if (view->is_vforked || !view->is_unsaved)
		return TRIGGER_NONE;
	if (view->is_final)
		return TRIGGER_END;
	if (view->is_empty)
		return TRIGGER_NONE;
	return trigger != TRIGGER_END ? trigger : due_trigger(&record->due, view->pid);
}

/* Whether a signal to end has come that the loop has not read yet. */
static bool is_told_to_end(void)
{
	sigset_t waiting;

	return !sigpending(&waiting) && (sigismember(&waiting, SIGTERM) || sigismember(&waiting, SIGINT));
}

#define LAST_PASS_NS (60 * SECOND_NS) /* service managers wait for longer (TimeoutStopSec) */

/*
 * A signal ends a pass, and the last pass then takes all snapshots. The last pass itself ends at a second signal, and
 * after a minute: a process can make its own snapshot as expensive as it likes.
 */
static bool is_pass_over(const struct record *record, uint64_t begun_ns)
{
	return is_told_to_end() || (record->is_last && monotonic_now_ns() - begun_ns > LAST_PASS_NS);
}

static void give_up_rest(struct record *record, enum trigger trigger)
{
	struct process_view view;
	size_t nr = 0;

	for (size_t i = 0; i < collector__process_nr(record->collector); i++) {
		collector__view(record->collector, i, &view);
		nr += trigger_in_pass(record, &view, trigger) != TRIGGER_NONE;
	}
	if (!nr)
		return;
	record->lost_nr += nr;
	record->status = EXIT_FAILED;
	status_line_clear(&record->line);
	say("%zu last snapshot%s given up: %s", nr, nr == 1 ? " was" : "s were",
	    is_told_to_end() ? "a second signal came" : "the others took a minute");
}

/* Whether the next pass may take the snapshot: the user's share is spent. */
static bool can_wait(const struct record *record, const struct process_view *view)
{
	return view->is_final && !last_share_allows(&record->last_share, view->user);
}

static void save_next(struct record *record, size_t i, const struct process_view *view, enum trigger trigger)
{
	uint64_t begun_ns = monotonic_now_ns();

	record_save(record, i, view, trigger);
	if (view->is_final)
		last_share_take(&record->last_share, view->user, monotonic_now_ns() - begun_ns);
}

/*
 * Takes snapshots within each user's share; whole: also beyond it. Returns false if the pass ended before it had all.
 */
static bool save_some(struct record *record, enum trigger trigger, uint64_t begun_ns, bool whole)
{
	for (size_t i = 0; i < collector__process_nr(record->collector);) {
		enum trigger because;
		struct process_view view;

		collector__view(record->collector, i, &view);
		because = trigger_in_pass(record, &view, trigger);
		if (!because || (!whole && can_wait(record, &view))) {
			i++;
			continue;
		}
		if (is_pass_over(record, begun_ns)) {
			publish_batch(record);
			if (record->is_last)
				give_up_rest(record, trigger);
			return false;
		}
		save_next(record, i, &view, because);
		if (view.is_final)
			collector__forget_view(record->collector, i);
		else
			i++;
		if (refresh_between(record))
			i = 0; /* other processes may have these indexes now */
	}
	publish_batch(record);
	return true;
}

/*
 * Returns false if the pass ended before it had all its snapshots. The last pass also takes those beyond a user's
 * share.
 */
static bool record_save_all(struct record *record, enum trigger trigger, uint64_t begun_ns)
{
	last_share_advance(&record->last_share, begun_ns);
	return save_some(record, trigger, begun_ns, false) &&
	       (!record->is_last || save_some(record, trigger, begun_ns, true));
}

/* A pass without a snapshot does not show that snapshots can be written again. */
static void set_save_trouble(struct record *record, uint64_t saved_nr, uint64_t lost_nr)
{
	if (saved_nr || lost_nr)
		record__set_trouble(record, TROUBLE_SAVE, lost_nr);
}

/* TRIGGER_END: takes processes that have ended, and those that are due. */
void record__pass(struct record *record, enum trigger trigger)
{
	uint64_t begun_ns = monotonic_now_ns(), saved_before = record->report.saved_nr, lost_before = record->lost_nr;
	struct reason why = {};
	int err;

	archive__make_room(record->archive);
	err = collector__drain(record->collector, &why);
	notify__alive(&record->notify);
	record->report.drain_nr++;
	record->report.drain_ns += monotonic_now_ns() - begun_ns;
	record__set_trouble(record, TROUBLE_DRAIN, err);
	if (err) {
		record__say_failure(record, &why);
	} else {
		if (record_save_all(record, trigger, begun_ns))
			collector__end_pass(record->collector);
		record->report.last_pass_wall_ns = clock_now_ns(CLOCK_REALTIME);
	}
	archive__make_room(record->archive);
	set_save_trouble(record, record->report.saved_nr - saved_before, record->lost_nr - lost_before);
	record->due.process_nr = 0;
	record->is_fresh = trigger != TRIGGER_END;
	record->passed_ns = monotonic_now_ns();
	/* The next triggered pass leaves as much time to other work as this one has taken. */
	record->due_again_ns = 2 * record->passed_ns - begun_ns;
	report_pass(record, begun_ns, record->report.saved_nr - saved_before);
	record__tell_metrics(record);
}
