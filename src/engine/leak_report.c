// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/frame.h"
#include "engine/leak_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "engine/estimate.h"
#include "engine/leak_lines.h"
#include "engine/leak_runtime.h"
#include "engine/told_samples.h"
#include "engine/wrappers.h"
#include "snapshot.h"

/* Snapshots before traces were cleared do not count. */
static void choose_begin(const struct leak_moment *moment, size_t nr, const struct leak_span *span,
			 struct leak_times *ret)
{
	uint64_t end_ns = moment[nr - 1].now_ns;

	ret->begin_ns = span->begin_ns;
	ret->is_part = false;
	for (size_t i = 1; i < nr; i++)
		if (moment[i].clears != moment[i - 1].clears) {
			ret->begin_ns = moment[i - 1].now_ns;
			ret->is_part = true;
		}
	if (span->last_ns && span->last_ns < end_ns && end_ns - span->last_ns > ret->begin_ns) {
		ret->begin_ns = end_ns - span->last_ns;
		ret->is_part = true;
	}
}

static size_t next_kept(const bool *keep, size_t at)
{
	while (!keep[at])
		at++;
	return at;
}

/* Keeps the last one, and the others as evenly in time as they are there. kept: how many there are. */
static size_t choose_evenly(const struct leak_moment *moment, size_t nr, size_t kept, uint64_t begin, bool *keep)
{
	uint64_t end = moment[nr - 1].now_ns;
	size_t at = 0, left = kept; /* left: those from `at` on that may be chosen */

	for (uint32_t k = 1; k <= LEAK_SNAPSHOTS; k++) {
		uint64_t wanted = begin + (unsigned __int128)(end - begin) * k / LEAK_SNAPSHOTS;

		at = next_kept(keep, at);
		while (left > LEAK_SNAPSHOTS - k + 1 && moment[at].now_ns < wanted) {
			keep[at] = false;
			at = next_kept(keep, at);
			left--;
		}
		at++;
		left--;
	}
	for (; at < nr; at++)
		keep[at] = false;
	return LEAK_SNAPSHOTS;
}

size_t leak_moments_choose(const struct leak_moment *moment, size_t nr, const struct leak_span *span, bool *keep,
			   struct leak_times *ret)
{
	size_t kept = 0;

	*ret = (struct leak_times){};
	if (!nr)
		return 0;
	choose_begin(moment, nr, span, ret);
	for (size_t i = 0; i < nr; i++) {
		keep[i] = moment[i].now_ns > ret->begin_ns && (i + 1 == nr || moment[i].now_ns < moment[i + 1].now_ns);
		kept += keep[i];
	}
	return kept > LEAK_SNAPSHOTS ? choose_evenly(moment, nr, kept, ret->begin_ns, keep) : kept;
}

/* The memory at the time of a snapshot. */
struct memory {
	uint64_t at_ns;
	double block_bytes, mapped_bytes; /* live */
	double missed_bytes; /* as many more may live of those born since the first snapshot: samples do not have them */
	double rss, files; /* bytes of RSS, and of these, mapped files and shared memory; 0: not known */
	bool is_rough;	   /* changed pages of files are no files (process/rss.h) */
};

#define RSS_AGE_MOST 1000000000 /* ns; and a tenth of the time observed */

/* 0: not known, or of an earlier time: a process that has ended keeps its last value. */
static uint64_t rss_of(const struct snapshot *snapshot, uint64_t observed_ns)
{
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);
	uint64_t read_ns = snapshot__metadata_u64(snapshot, "rss_monotonic_ns", now_ns);

	return read_ns + RSS_AGE_MOST + observed_ns / 10 < now_ns ? 0 : snapshot__metadata_u64(snapshot, "rss_bytes", 0);
}

/* Pools are no samples by chance. */
static double missed_bytes(const struct snapshot *snapshot, uint64_t since_ns)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t rate = snapshot__metadata_u64(snapshot, "sample_bytes", 0);
	struct moments born = {};

	if (!tables->trace_weight || !rate || snapshot_samples_pools(snapshot))
		return 0;
	for (uint64_t i = 0; i < tables->trace_nr; i++)
		if (!tables->trace_birth_ns || tables->trace_birth_ns[i] >= since_ns)
			moments_add_block(&born, tables->trace_size[i], tables->trace_weight[i]);
	return moments_missed(&born, rate);
}

static struct memory memory_at(const struct snapshot *snapshot, uint64_t at_ns, uint64_t observed_ns)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	bool has_mappings = tables->trace_domain && snapshot__domain_name(snapshot, DOMAIN_MAPPING);
	struct memory memory = {
		.at_ns = at_ns,
		.rss = rss_of(snapshot, observed_ns),
		.files = (double)snapshot__metadata_u64(snapshot, "rss_files_bytes", 0) +
			 snapshot__metadata_u64(snapshot, "rss_shared_bytes", 0),
		.is_rough = snapshot__metadata(snapshot, "rss_anonymous_bytes"),
	};

	for (uint64_t i = 0; i < tables->trace_nr; i++)
		*(has_mappings && tables->trace_domain[i] == DOMAIN_MAPPING ? &memory.mapped_bytes : &memory.block_bytes) +=
			tables->trace_size[i] * (tables->trace_weight ? tables->trace_weight[i] : 1);
	return memory;
}

/* The memory at the times between which growth is measured. */
struct growth_ends {
	struct memory first, first_with_rss, last_with_rss;
};

static void growth_ends_add(struct growth_ends *ends, const struct memory *memory, bool is_first)
{
	if (is_first)
		ends->first = *memory;
	if (!memory->rss)
		return;
	if (!ends->first_with_rss.rss)
		ends->first_with_rss = *memory;
	ends->last_with_rss = *memory;
}

static struct live_growth growth_between(const struct memory *first, const struct memory *last)
{
	return (struct live_growth){ last->at_ns - first->at_ns, last->block_bytes - first->block_bytes,
				     last->mapped_bytes - first->mapped_bytes };
}

static void set_growth(struct leaks *leaks, const struct growth_ends *ends, const struct memory *last)
{
	const struct memory *from = &ends->first_with_rss, *to = &ends->last_with_rss;

	leaks->growth = growth_between(&ends->first, last);
	leaks->rss_growth = growth_between(from, to);
	leaks->rss_growth.missed_bytes = to->missed_bytes;
	leaks->rss_bytes = to->rss - from->rss;
	leaks->files_bytes = from->is_rough == to->is_rough ? to->files - from->files : 0;
}

/* Adds all snapshots to the tally; the last one is open already. */
static int add_snapshots(struct leaks *leaks, struct leak_tally *tally, const struct leak_recording *recording,
			 struct reason *why)
{
	const uint64_t *now_ns = recording->times.now_ns;
	uint32_t last = recording->times.snapshot_nr - 1;
	struct growth_ends ends = {};
	struct memory memory;
	int err = 0;

	for (uint32_t i = 0; i <= last && !err; i++) {
		struct snapshot *snapshot = i == last ? leaks->last : recording->open(recording->what, i, why);

		if (!snapshot)
			return -errno ?: -EIO;
		memory = memory_at(snapshot, now_ns[i], now_ns[last] - now_ns[0]);
		memory.missed_bytes = missed_bytes(snapshot, ends.first_with_rss.at_ns);
		growth_ends_add(&ends, &memory, !i);
		err = leak_tally_add(tally, i, snapshot, why);
		if (i != last)
			snapshot__close(snapshot);
	}
	set_growth(leaks, &ends, &memory);
	return err;
}

/* A pool counts for the line that took it, although others may keep it: no line surely leaks, nor at a known least rate. */
static void mark_pools(const struct leaks *leaks, uint32_t domain, struct leak_verdict *verdict)
{
	if (domain != DOMAIN_PYTHON && has_heap_beside(leaks->last))
		return;
	verdict->by_pools = true;
	verdict->least_bytes_per_s = 0;
	if (verdict->kind == LEAK_SURE)
		verdict->kind = LEAK_LIKELY;
}

static void find_pools(struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->line_nr; i++) {
		struct leak_verdict *verdict = &leaks->line[i].verdict;

		leaks->kind_nr[verdict->kind]--;
		mark_pools(leaks, leak_line_caller(leaks, &leaks->line[i])->domain, verdict);
		leaks->kind_nr[verdict->kind]++;
	}
	for (size_t i = 0; i < leaks->caller_nr; i++)
		mark_pools(leaks, leaks->caller[i].domain, &leaks->caller[i].verdict);
}

/* Code that needs fresh pages may do so because other code keeps the ones from before: growth is no leak of its own. */
static void mark_pages(struct leak_verdict *verdict)
{
	verdict->by_pages = true;
	verdict->least_bytes_per_s = 0;
	if (verdict->kind <= LEAK_LIKELY)
		verdict->kind = LEAK_GROWS;
}

static void find_pages(struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->line_nr; i++) {
		leaks->kind_nr[leaks->line[i].verdict.kind]--;
		mark_pages(&leaks->line[i].verdict);
		leaks->kind_nr[leaks->line[i].verdict.kind]++;
	}
	for (size_t i = 0; i < leaks->caller_nr; i++)
		mark_pages(&leaks->caller[i].verdict);
}

static int judge_recording(struct leaks *leaks, struct leak_tally *tally, const struct leak_recording *recording,
			   const struct engine_options *options, struct reason *why)
{
	int err = leak_tally_init(tally, leaks->last, &recording->times, options, why);

	err = err ?: add_snapshots(leaks, tally, recording, why);
	err = err ?: leak_lines_make(leaks, tally, options, why);
	if (!err && snapshot_samples_pools(leaks->last))
		find_pools(leaks);
	if (!err && leaks_are_of_pages(leaks->last))
		find_pages(leaks);
	err = err ?: leak_bundles_make(leaks);
	leaks->window = tally->window;
	leaks->window.snapshot_ns = NULL;
	leaks->window.gap = NULL;
	leaks->unborn = tally->unborn;
	leaks->block_nr = snapshot__tables(leaks->last)->trace_nr;
	return err;
}

int leaks_find(const struct leak_recording *recording, const struct engine_options *options, struct leaks **ret,
	       struct reason *why)
{
	struct leaks *leaks = calloc(1, sizeof(*leaks));
	struct leak_tally tally = {};
	int err;

	reason_set(why, 0, "out of memory");
	if (!leaks)
		return -ENOMEM;
	leaks->last = recording->open(recording->what, recording->times.snapshot_nr - 1, why);
	err = leaks->last ? judge_recording(leaks, &tally, recording, options, why) : -errno ?: -EIO;
	leak_tally_release(&tally);
	if (err)
		leaks_free(leaks);
	else
		*ret = leaks;
	return err;
}

void leaks_free(struct leaks *leaks)
{
	if (!leaks)
		return;
	snapshot__close(leaks->last);
	free(leaks->frame_role);
	free(leaks->line);
	free(leaks->caller);
	free(leaks->bundle);
	free(leaks);
}

const struct leak_caller *leak_line_caller(const struct leaks *leaks, const struct leak_line *line)
{
	return &leaks->caller[line->first];
}

static double limited_rate(const struct leak_verdict *verdict)
{
	if (verdict->kind > LEAK_LIKELY)
		return 0;
	return verdict->kind == LEAK_SURE || verdict->by_pools ? verdict->bytes_per_s : verdict->least_bytes_per_s;
}

double leaks_limited_rate(const struct leaks *leaks)
{
	double sum = 0;

	for (size_t i = 0; i < leaks->line_nr; i++)
		sum += limited_rate(&leaks->line[i].verdict);
	return sum;
}

double leaks_sure_growth(const struct leaks *leaks)
{
	double sum = 0;

	for (size_t i = 0; i < leaks->line_nr; i++)
		if (leaks->line[i].verdict.kind == LEAK_SURE && leak_line_explains(leaks, &leaks->line[i]))
			sum += leaks->line[i].growth_bytes;
	return sum;
}

struct leak_blind leaks_find_blind(const struct leaks *leaks)
{
	bool is_sampled = snapshot__tables(leaks->last)->trace_weight;

	return (struct leak_blind){
		.span_ns = leaks->window.span_ns,
		.sample_bytes = is_sampled ? snapshot__metadata_u64(leaks->last, "sample_bytes", 0) : 0,
		.unseen_heap = snapshot__metadata(leaks->last, "unrecorded"),
	};
}

#define COLLECTIONS_LEAST 2 /* a collection publishes what the one before it has freed */

uint64_t leaks_collection_nr(const struct leaks *leaks)
{
	return snapshot__metadata_u64(leaks->last, "go_collection_count", 0);
}

/* One collection of the whole heap shows what lives, the second one that it still does. */
#define WHOLE_COLLECTIONS_LEAST 2

static bool has_too_few_collections(const struct snapshot *last)
{
	return snapshot__metadata(last, "java_whole_gc_count") &&
	       snapshot__metadata_u64(last, "java_whole_gc_count", 0) < WHOLE_COLLECTIONS_LEAST;
}

/* The rule tolerates one free in twenty that it takes for late; one in a hundred may be missed. */
enum leak_unjudged leaks_find_unjudged(const struct leaks *leaks)
{
	uint64_t dropped = snapshot__counter(leaks->last, "blocks_dropped");
	uint64_t allocations = snapshot__counter(leaks->last, "allocations");
	struct reason why;

	if (19.0 * dropped > allocations) /* more than 5 % of all */
		return LEAK_UNJUDGED_DROPPED;
	if (told_samples_doubt(leaks->last, &why))
		return LEAK_UNJUDGED_DOUBTED;
	if (leaks->unborn > leaks->block_nr / 20)
		return LEAK_UNJUDGED_UNBORN;
	if (leaks_are_of_pages(leaks->last))
		return LEAK_UNJUDGED_PAGES;
	if (has_too_few_collections(leaks->last))
		return LEAK_UNJUDGED_UNCOLLECTED;
	if (leaks_untraced_growth(leaks) > 0 && leaks_find_untraced(leaks).kind == LEAK_UNTRACED_NAMED)
		return LEAK_UNJUDGED_UNTRACED; /* also without gaps */
	if (leaks->window.gaps_ns > leaks->window.span_ns / 100)
		return LEAK_UNJUDGED_GAPS;
	if (leaks_untraced_growth(leaks) > 0)
		return LEAK_UNJUDGED_UNTRACED;
	if (leaks_missed_growth(leaks) > 0)
		return LEAK_UNJUDGED_SAMPLES;
	if (leaks->window.snapshot_nr < LEAK_SNAPSHOTS_LEAST)
		return LEAK_UNJUDGED_SNAPSHOTS;
	return snapshot_is_of_go(leaks->last) && leaks_collection_nr(leaks) < COLLECTIONS_LEAST ? LEAK_UNJUDGED_GARBAGE : LEAK_JUDGED;
}

bool leak_unjudged_is_void(enum leak_unjudged unjudged)
{
	return unjudged == LEAK_UNJUDGED_DROPPED || unjudged == LEAK_UNJUDGED_UNBORN || unjudged == LEAK_UNJUDGED_DOUBTED ||
	       unjudged == LEAK_UNJUDGED_UNCOLLECTED;
}

/* frame[] has the oldest first, the traceback the most recent. */
static void mark_library_frames(const struct leaks *leaks, uint32_t traceback, struct frame_view *frame, uint32_t nframe)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);
	const struct snap_traceback *row = &tables->traceback[traceback];

	for (uint32_t i = 0; i < row->nframe; i++)
		frame[nframe - 1 - i].is_library =
			leaks->frame_role[tables->traceback_frame[row->first + i]] >= ROLE_START ||
			wrapper_is_python_library(frame[nframe - 1 - i].filename);
}

static int read_place_caller(const struct leaks *leaks, const struct leak_caller *caller,
			     struct leak_place_caller *ret)
{
	uint32_t total, nframe;
	int err = traceback_read(leaks->last, caller->traceback, &ret->frame, &nframe, &total);

	if (!err)
		mark_library_frames(leaks, caller->traceback, ret->frame, nframe);
	ret->verdict = caller->verdict;
	ret->domain = caller->domain;
	ret->site_nr = caller->site_nr;
	ret->nframe = err ? 0 : nframe - caller->skipped;
	if (!err && caller->skipped && frame_is_java_class(&ret->frame[nframe - 1]))
		ret->class = &ret->frame[nframe - 1];
	return err;
}

int leak_place_read(const struct leaks *leaks, const struct leak_line *line, size_t most, struct leak_place *ret)
{
	size_t nr = line->caller_nr < most ? line->caller_nr : most;
	int err = 0;

	*ret = (struct leak_place){ .caller = calloc(nr ?: 1, sizeof(*ret->caller)), .all_nr = line->caller_nr };
	if (!ret->caller)
		return -ENOMEM;
	for (; ret->caller_nr < nr && !err; ret->caller_nr++)
		err = read_place_caller(leaks, &leaks->caller[line->first + ret->caller_nr],
					&ret->caller[ret->caller_nr]);
	return err;
}

/* ---- names ---------------------------------------------------------------------------------- */

#define FRAME_NAMES 4

static void point_to_names(struct frame_view *frame, const char **ret_name[FRAME_NAMES])
{
	ret_name[0] = &frame->filename;
	ret_name[1] = &frame->function;
	ret_name[2] = &frame->object;
	ret_name[3] = &frame->build_id;
}

static size_t frame_names_size(struct frame_view *frame)
{
	const char **name[FRAME_NAMES];
	size_t size = 0;

	point_to_names(frame, name);
	for (size_t i = 0; i < FRAME_NAMES; i++)
		size += *name[i] ? strlen(*name[i]) + 1 : 0;
	return size;
}

/* Returns the end of what was written. */
static char *move_frame_names(struct frame_view *frame, char *to)
{
	const char **name[FRAME_NAMES];

	point_to_names(frame, name);
	for (size_t i = 0; i < FRAME_NAMES; i++) {
		if (!*name[i])
			continue;
		to = stpcpy(to, *name[i]) + 1;
		*name[i] = to - strlen(*name[i]) - 1;
	}
	return to;
}

int leak_place_own_names(struct leak_place *place)
{
	size_t size = 1;
	char *at;

	for (size_t i = 0; i < place->caller_nr; i++) {
		for (uint32_t k = 0; k < place->caller[i].nframe; k++)
			size += frame_names_size(&place->caller[i].frame[k]);
		size += place->caller[i].class ? frame_names_size(place->caller[i].class) : 0;
	}
	place->strings = at = malloc(size);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < place->caller_nr; i++) {
		for (uint32_t k = 0; k < place->caller[i].nframe; k++)
			at = move_frame_names(&place->caller[i].frame[k], at);
		if (place->caller[i].class)
			at = move_frame_names(place->caller[i].class, at);
	}
	return 0;
}

void leak_place_release(struct leak_place *place)
{
	for (size_t i = 0; i < place->caller_nr; i++)
		free(place->caller[i].frame);
	free(place->caller);
	free(place->strings);
	*place = (struct leak_place){};
}

const struct frame_view *leak_place_frame(const struct leak_place *place, uint32_t at)
{
	const struct leak_place_caller *first = place->caller;

	if (!place->caller_nr || !first->nframe || at == UINT32_MAX)
		return NULL;
	return &first->frame[at < first->nframe ? at : first->nframe - 1];
}
