// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/process_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/leak_report.h"
#include "fleet/content_id.h"
#include "snapshot.h"

struct process_leaks {
	struct leaks *leaks; /* NULL: there are no verdicts at all */
	enum fleet_unjudged unjudged;
	size_t gone_nr; /* snapshots whose files are gone */
	struct reason why; /* FLEET_UNJUDGED_CHANGED: a line */
};

/* The snapshots of one recording that have files. */
struct series {
	const struct fleet_snapshot **snapshot; /* in the order of time */
	size_t snapshot_nr, snapshot_alloc;
	uint64_t *now_ns; /* of each */
	struct snapshot *last; /* open already; NULL: not, or no longer */
	struct leak_recording recording;
};

static void series_release(struct series *series)
{
	snapshot__close(series->last);
	free(series->snapshot);
	free(series->now_ns);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Keeps the newest recording's snapshots that are whole and have a file. */
static int find_series(const struct process_leaks_question *question, struct series *series,
		       struct process_leaks *ret)
{
	size_t parts = 0;
	int err = 0;

	for (size_t i = 0; i < question->snapshot_nr && !err; i++) {
		const struct fleet_snapshot *snapshot = question->snapshot[i];
		bool is_gone = access(snapshot->path, F_OK) && (errno == ENOENT || errno == ENOTDIR);

		ret->gone_nr += is_gone;
		parts += snapshot->is_part;
		if (is_gone || snapshot->is_part)
			continue;
		if (series->snapshot_nr && series->snapshot[0]->recording != snapshot->recording)
			series->snapshot_nr = 0;
		err = array_push(series, snapshot, snapshot);
	}
	if (!series->snapshot_nr)
		ret->unjudged = ret->gone_nr ? FLEET_UNJUDGED_GONE : FLEET_UNJUDGED_PARTS;
	return err;
}

static bool has_text(const struct snapshot *snapshot, const char *key, const char *wanted)
{
	return !strcmp(snapshot__metadata(snapshot, key) ?: "", wanted);
}

static bool has_number(const struct snapshot *snapshot, const char *key, int64_t wanted)
{
	return snapshot__metadata_u64(snapshot, key, 0) == (uint64_t)wanted;
}

static bool is_indexed_snapshot(const struct snapshot *snapshot, const struct fleet_snapshot *wanted)
{
	return has_text(snapshot, "host", wanted->host) && has_text(snapshot, "boot_id", wanted->boot_id) &&
	       has_number(snapshot, "pid", wanted->pid) &&
	       has_number(snapshot, "start_time_ticks", wanted->start_ticks) &&
	       has_number(snapshot, "exec_count", wanted->exec_count) &&
	       has_number(snapshot, "recording_start_monotonic_ns", wanted->recording_ns) &&
	       has_number(snapshot, "monotonic_ns", wanted->monotonic_ns) &&
	       !snapshot__metadata(snapshot, "filters");
}

static struct snapshot *open_indexed(const struct fleet_snapshot *wanted, struct reason *why)
{
	struct snapshot *snapshot = snapshot__open(wanted->path, why);

	if (!snapshot || is_indexed_snapshot(snapshot, wanted))
		return snapshot;
	reason_set(why, -ESTALE, "%s: not the snapshot that was indexed", wanted->path);
	snapshot__close(snapshot);
	errno = ESTALE;
	return NULL;
}

/* An open() of struct leak_recording. */
static struct snapshot *open_in_series(void *series_, uint32_t at, struct reason *why)
{
	struct series *series = series_;
	struct snapshot *last = series->last;

	if (!last || at + 1 < series->recording.times.snapshot_nr)
		return open_indexed(series->snapshot[at], why);
	series->last = NULL;
	return last;
}

/* ---- times ---------------------------------------------------------------------------------- */

/* Only if traces were cleared at all, all files are asked when. */
static int read_clears(struct series *series, struct leak_moment *moment, struct reason *why)
{
	uint64_t last = snapshot__metadata_u64(series->last, "clear_count", 0);

	moment[series->snapshot_nr - 1].clears = last;
	for (size_t i = 0; i + 1 < series->snapshot_nr && last; i++) {
		struct snapshot *snapshot = open_indexed(series->snapshot[i], why);

		if (!snapshot)
			return -errno ?: -EIO;
		moment[i].clears = snapshot__metadata_u64(snapshot, "clear_count", 0);
		snapshot__close(snapshot);
	}
	return 0;
}

static void keep_moments(struct series *series, const struct leak_moment *moment, const bool *keep)
{
	size_t nr = 0;

	for (size_t i = 0; i < series->snapshot_nr; i++) {
		if (!keep[i])
			continue;
		series->now_ns[nr] = moment[i].now_ns;
		series->snapshot[nr++] = series->snapshot[i];
	}
	series->snapshot_nr = nr;
	series->recording.times.now_ns = series->now_ns;
	series->recording.times.snapshot_nr = nr;
}

static int choose_series_moments(struct series *series, uint64_t last_ns, struct leak_moment *moment, bool *keep,
			  struct reason *why)
{
	const struct fleet_snapshot *last = series->snapshot[series->snapshot_nr - 1];
	const struct leak_span span = { last->recording_ns > 0 ? (uint64_t)last->recording_ns : UINT64_MAX, last_ns };
	int err;

	for (size_t i = 0; i < series->snapshot_nr; i++)
		moment[i].now_ns = series->snapshot[i]->monotonic_ns;
	err = read_clears(series, moment, why);
	if (err)
		return err;
	if (!leak_moments_choose(moment, series->snapshot_nr, &span, keep, &series->recording.times))
		return -ENODATA;
	keep_moments(series, moment, keep);
	return 0;
}

/* Leaves the snapshots that are judged. -ENODATA: their times are not known. */
static int choose_times_of_series(struct series *series, uint64_t last_ns, struct reason *why)
{
	struct leak_moment *moment = calloc(series->snapshot_nr, sizeof(*moment));
	bool *keep = calloc(series->snapshot_nr, sizeof(*keep));
	int err = -ENOMEM;

	series->now_ns = calloc(series->snapshot_nr, sizeof(*series->now_ns));
	if (moment && keep && series->now_ns)
		err = choose_series_moments(series, last_ns, moment, keep, why);
	free(moment);
	free(keep);
	return err;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

static enum fleet_unjudged fleet_unjudged_of(enum leak_unjudged unjudged)
{
	static const enum fleet_unjudged same[LEAK_UNJUDGED_NR] = {
		[LEAK_JUDGED] = FLEET_JUDGED,
		[LEAK_UNJUDGED_DROPPED] = FLEET_UNJUDGED_DROPPED,
		[LEAK_UNJUDGED_UNBORN] = FLEET_UNJUDGED_UNBORN,
		[LEAK_UNJUDGED_DOUBTED] = FLEET_UNJUDGED_DOUBTED,
		[LEAK_UNJUDGED_UNCOLLECTED] = FLEET_UNJUDGED_UNCOLLECTED,
		[LEAK_UNJUDGED_GAPS] = FLEET_UNJUDGED_GAPS,
		[LEAK_UNJUDGED_UNTRACED] = FLEET_UNJUDGED_UNTRACED,
		[LEAK_UNJUDGED_SAMPLES] = FLEET_UNJUDGED_SAMPLES,
		[LEAK_UNJUDGED_SNAPSHOTS] = FLEET_UNJUDGED_SNAPSHOTS,
		[LEAK_UNJUDGED_PAGES] = FLEET_UNJUDGED_PAGES,
		[LEAK_UNJUDGED_GARBAGE] = FLEET_UNJUDGED_GARBAGE,
	};

	return same[unjudged];
}

static void keep_verdicts(struct process_leaks *process)
{
	enum leak_unjudged unjudged = leaks_find_unjudged(process->leaks);

	process->unjudged = fleet_unjudged_of(unjudged);
	if (!leak_unjudged_is_void(unjudged))
		return;
	leaks_free(process->leaks);
	process->leaks = NULL;
}

static bool has_births(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	return !tables->trace_nr || tables->trace_birth_ns;
}

/* An error other than -ENOMEM is one of this process. */
static int judge_series(const struct process_leaks_question *question, struct series *series,
			struct process_leaks *ret)
{
	int err;

	series->last = open_indexed(series->snapshot[series->snapshot_nr - 1], &ret->why);
	if (!series->last)
		return -errno ?: -EIO;
	if (!has_births(series->last)) {
		ret->unjudged = FLEET_UNJUDGED_UNBORN;
		return 0;
	}
	err = choose_times_of_series(series, question->last_ns, &ret->why);
	if (err == -ENODATA) {
		ret->unjudged = FLEET_UNJUDGED_UNTIMED;
		return 0;
	}
	series->recording.open = open_in_series;
	series->recording.what = series;
	err = err ?: leaks_find(&series->recording, question->engine, &ret->leaks, &ret->why);
	if (!err)
		keep_verdicts(ret);
	return err;
}

/* Returns 0 or -ENOMEM. process_leaks_release() ends *ret, also after an error. */
static int process_leaks_find(const struct process_leaks_question *question, struct process_leaks *ret)
{
	struct series series = {};
	int err;

	*ret = (struct process_leaks){};
	err = find_series(question, &series, ret);
	if (!err && series.snapshot_nr)
		err = judge_series(question, &series, ret);
	series_release(&series);
	if (err && err != -ENOMEM)
		ret->unjudged = FLEET_UNJUDGED_CHANGED;
	return err == -ENOMEM ? err : 0;
}

static void process_leaks_release(struct process_leaks *process)
{
	leaks_free(process->leaks);
	process->leaks = NULL;
}

/* ---- lines by group ------------------------------------------------------------------------ */

#define CALLERS_KEPT 5 /* of a line: those that are shown */

/* Sets *ret to NULL if the catalogue does not have the line: the file is no longer what was indexed. */
static int find_line_group(const struct line_groups *groups, struct digest *digest, uint32_t traceback,
			   const struct known_row **ret)
{
	struct hash_id id;
	int err = digest_traceback_id(digest, traceback, &id);

	*ret = err ? NULL : known_find(&groups->group, id.id, 0);
	return err;
}

static int keep_line(struct process_line *ret, const struct leaks *leaks, const struct leak_line *line)
{
	int err;

	ret->verdict.verdict = line->verdict;
	ret->verdict.window = leaks->window;
	ret->verdict.summed = line->is_summed ? line->site_nr : 0;
	if (line->verdict.kind > LEAK_GROWS)
		return 0;
	ret->hints = leak_line_runtimes(leaks, line) | leak_recording_hints(leaks->last);
	err = leak_place_read(leaks, line, CALLERS_KEPT, &ret->verdict.place);
	return err ?: leak_place_own_names(&ret->verdict.place);
}

/* Lines of a bundle come one after another. -ESTALE: one of them is not in the catalogue. */
static int keep_bundle(struct process_lines *lines, const struct leaks *leaks, const struct leak_bundle *bundle,
		       const struct line_groups *groups, struct digest *digest)
{
	struct process_line *first = &lines->line[lines->line_nr];
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < bundle->nr; i++) {
		const struct leak_line *line = &leaks->line[bundle->first + i];
		struct process_line *kept = &lines->line[lines->line_nr++];
		const struct known_row *group;
		int err = find_line_group(groups, digest, leak_line_caller(leaks, line)->traceback, &group);

		if (err || !group)
			return err ?: -ESTALE;
		kept->group = group->number;
		kept->verdict.common = bundle->caller;
		least = kept->group < least ? kept->group : least;
		err = keep_line(kept, leaks, line);
		if (err)
			return err;
	}
	for (size_t i = 0; i < bundle->nr; i++)
		first[i].together = least;
	return 0;
}

static void forget_lines(struct process_lines *lines)
{
	for (size_t i = 0; i < lines->line_nr; i++)
		leak_place_release(&lines->line[i].verdict.place);
	free(lines->line);
	lines->line = NULL;
	lines->line_nr = 0;
}

static int keep_lines(struct process_lines *lines, const struct leaks *leaks, const struct fleet_snapshot *snapshot,
		      const struct line_groups *groups)
{
	struct digest digest = {};
	int err = digest_begin(&digest, leaks->last);

	lines->line = calloc(leaks->line_nr ?: 1, sizeof(*lines->line));
	err = err ?: (lines->line ? 0 : -ENOMEM);
	for (size_t i = 0; i < leaks->bundle_nr && !err; i++)
		err = keep_bundle(lines, leaks, &leaks->bundle[i], groups, &digest);
	digest_release(&digest);
	for (size_t i = 0; i < lines->line_nr; i++)
		lines->line[i].verdict.snapshot = snapshot;
	if (err != -ESTALE)
		return err;
	lines->unjudged = FLEET_UNJUDGED_CHANGED;
	reason_set(&lines->why, 0, "%s: other names than when it was indexed", snapshot->path);
	forget_lines(lines);
	return 0;
}

static int keep_untraced(struct untraced_growth *ret, const struct leaks *leaks)
{
	*ret = leaks_find_untraced(leaks);
	if (!ret->name)
		return 0;
	ret->name = strdup(ret->name);
	return ret->name ? 0 : -ENOMEM;
}

static int keep_blind(struct leak_blind *ret, const struct leaks *leaks)
{
	*ret = leaks_find_blind(leaks);
	if (!ret->unseen_heap)
		return 0;
	ret->unseen_heap = strdup(ret->unseen_heap);
	return ret->unseen_heap ? 0 : -ENOMEM;
}

int process_lines_find(const struct process_leaks_question *question, const struct line_groups *groups,
		       struct process_lines *ret)
{
	struct process_leaks process;
	int err = process_leaks_find(question, &process);

	*ret = (struct process_lines){
		.unjudged = process.unjudged, .gone_nr = process.gone_nr, .why = process.why,
	};
	if (!err && process.unjudged == FLEET_UNJUDGED_UNTRACED)
		err = keep_untraced(&ret->untraced, process.leaks);
	if (!err && process.leaks)
		err = keep_blind(&ret->blind, process.leaks);
	if (!err && process.leaks)
		err = keep_lines(ret, process.leaks, question->snapshot[question->snapshot_nr - 1], groups);
	process_leaks_release(&process);
	return err;
}

void process_lines_release(struct process_lines *lines)
{
	forget_lines(lines);
	free((char *)lines->untraced.name);
	free((char *)lines->blind.unseen_heap);
	lines->untraced.name = lines->blind.unseen_heap = NULL;
}
