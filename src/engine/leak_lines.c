// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "engine/keys.h"
#include "engine/leak_runtime.h"
#include "engine/trace_source.h"
#include "snapshot.h"

/* ---- sites ---------------------------------------------------------------------------------- */

struct judged {
	uint32_t site;
	uint32_t line;
	uint32_t caller; /* frame of the line's own caller; 0: none is known */
	uint32_t domain;
	uint32_t sum; /* sites with the same number were judged as one; 0: judged by itself */
	double bytes; /* of its own survivors */
	bool is_remade; /* a compiler in the process may have made its code anew */
	struct leak_verdict verdict;
};

/* The lines of all sites, by the rules of statistics. */
struct line_finder {
	struct engine_options options;
	struct source source;
	struct keyspace keys;
	struct key_source key_source;
	struct key_list list;
	struct idmap callers; /* one frame of those that are shown alike */
};

static int line_finder_init(struct line_finder *finder, const struct snapshot *last,
			    const struct engine_options *options)
{
	*finder = (struct line_finder){ .options = *options };
	finder->options.key_type = KEY_LINENO;
	finder->options.cumulative = false;
	keyspace_init(&finder->keys, &finder->options);
	return source_init(&finder->source, last, &finder->options) ?:
	       key_source_init(&finder->key_source, &finder->source);
}

static void line_finder_release(struct line_finder *finder)
{
	key_source_release(&finder->key_source);
	keyspace_release(&finder->keys);
	source_release(&finder->source);
	idmap_release(&finder->callers);
	free(finder->list.id);
}

static bool same_shown_frame(uint32_t id, const void *row_, const void *source_)
{
	const struct source *source = source_;
	const struct snap_frame *a = row_, *b = &source->tables->frame[id];

	return a->function == b->function && a->filename == b->filename && a->lineno == b->lineno &&
	       (a->lineno || (a->object == b->object && a->offset == b->offset));
}

/* Replaces a frame by the first one that reads the same: one line may call from several addresses. */
static int find_shown_frame(struct line_finder *finder, uint32_t *frame)
{
	const struct snap_frame *row = &finder->source.tables->frame[*frame];
	uint64_t hash = hash_bytes(&row->function, sizeof(row->function), row->lineno);
	uint32_t id = idmap_find(&finder->callers, hash, same_shown_frame, row, &finder->source);

	if (id == IDMAP_NONE)
		return idmap_add(&finder->callers, hash, *frame);
	*frame = id;
	return 0;
}

/* The first frame of the program's own behind the line, or else the next one. */
static int find_own_caller(struct line_finder *finder, const struct frame_span *span, uint32_t *ret)
{
	*ret = span->nframe > 1 ? span->frame[1] : 0;
	for (uint32_t i = 1; i < span->nframe; i++) {
		if (source_role(&finder->source, span->frame[i]) >= ROLE_START)
			continue;
		*ret = span->frame[i];
		break;
	}
	return *ret ? find_shown_frame(finder, ret) : 0;
}

static int judge_sites(struct leak_tally *tally, struct line_finder *finder, struct judged *judged)
{
	int err = 0;

	for (uint32_t site = 0; site < tally->sites.site_nr && !err; site++) {
		struct frame_span span = source_frames(&finder->source, tally->sites.site[site].traceback);

		judged[site].site = site;
		judged[site].domain = tally->sites.site[site].domain;
		judged[site].is_remade = leak_passes_made_code(tally->last, tally->sites.site[site].traceback);
		err = find_own_caller(finder, &span, &judged[site].caller) ?:
		      leak_tally_judge(tally, &site, 1, &judged[site].verdict);
		judged[site].bytes = judged[site].verdict.bytes;
		err = err ?: keyspace_find(&finder->keys, &finder->key_source, tally->sites.site[site].traceback,
					   &finder->list);
		if (!err)
			judged[site].line = finder->list.id[0];
	}
	return err;
}

static int by_line_and_kind(const void *left, const void *right)
{
	const struct judged *a = left, *b = right;

	return (a->line > b->line) - (a->line < b->line) ?:
	       (int)a->verdict.kind - (int)b->verdict.kind ?: (a->sum < b->sum) - (a->sum > b->sum) ?:
	       (a->sum ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : 0) ?:
	       (a->caller > b->caller) - (a->caller < b->caller) ?:
	       (a->verdict.bytes_per_s < b->verdict.bytes_per_s) - (a->verdict.bytes_per_s > b->verdict.bytes_per_s) ?:
	       (a->site > b->site) - (a->site < b->site);
}

/* ---- a line --------------------------------------------------------------------------------- */

void leak_verdict_add(struct leak_verdict *sum, const struct leak_verdict *verdict)
{
	bool is_first = !sum->live && !sum->allocated;

	if (is_first) {
		*sum = *verdict;
		return;
	}
	sum->doubts |= verdict->doubts;
	sum->bytes_per_s += verdict->bytes_per_s;
	sum->blocks_per_s += verdict->blocks_per_s;
	sum->since_ns = verdict->since_ns < sum->since_ns ? verdict->since_ns : sum->since_ns;
	sum->last_ns = verdict->last_ns > sum->last_ns ? verdict->last_ns : sum->last_ns;
	sum->horizon_ns = verdict->horizon_ns > sum->horizon_ns ? verdict->horizon_ns : sum->horizon_ns;
	sum->survivors += verdict->survivors;
	sum->freed += verdict->freed;
	sum->late += verdict->late;
	sum->early += verdict->early;
	sum->periods = verdict->periods > sum->periods ? verdict->periods : sum->periods;
	sum->span = verdict->span > sum->span ? verdict->span : sum->span;
	sum->bytes += verdict->bytes;
	sum->allocated += verdict->allocated;
	sum->live += verdict->live;
	sum->gone += verdict->gone;
	sum->by_pools |= verdict->by_pools;
	sum->least_bytes_per_s = sum->by_pools ? 0 : leak_lower_bound(sum->bytes_per_s, sum->late);
}

static struct leak_caller begin_caller(const struct leak_tally *tally, struct line_finder *finder,
				       const struct judged *judged)
{
	const struct leak_site_key *site = &tally->sites.site[judged->site];
	uint32_t nframe = snapshot__tables(tally->last)->traceback[site->traceback].nframe;

	return (struct leak_caller){
		.traceback = site->traceback,
		.skipped = nframe ? nframe - source_frames(&finder->source, site->traceback).nframe : 0,
		.domain = site->domain,
	};
}

static int by_rate(const void *left, const void *right)
{
	const struct leak_caller *a = left, *b = right;

	return (a->verdict.bytes_per_s < b->verdict.bytes_per_s) - (a->verdict.bytes_per_s > b->verdict.bytes_per_s) ?:
	       (a->verdict.bytes < b->verdict.bytes) - (a->verdict.bytes > b->verdict.bytes) ?:
	       (a->traceback > b->traceback) - (a->traceback < b->traceback);
}

/* Whether both are shown as one caller of a line. */
static bool is_same_caller(const struct judged *a, const struct judged *b)
{
	return a->sum ? a->sum == b->sum : a->caller == b->caller;
}

/* A sum that was judged as one has its verdict in each of its sites. */
static int push_callers(struct leaks *leaks, struct leak_line *line, const struct leak_tally *tally,
			struct line_finder *finder, const struct judged *judged, size_t nr)
{
	int err = 0;

	line->first = leaks->caller_nr;
	for (size_t i = 0; i < nr && !err;) {
		struct leak_caller caller = begin_caller(tally, finder, &judged[i]);
		size_t begin = i;

		for (; i < nr && is_same_caller(&judged[i], &judged[begin]); i++)
			if (i == begin || !judged[i].sum)
				leak_verdict_add(&caller.verdict, &judged[i].verdict);
		caller.site_nr = i - begin;
		leak_verdict_add(&line->verdict, &caller.verdict);
		err = array_push(leaks, caller, caller);
	}
	line->caller_nr = leaks->caller_nr - line->first;
	if (!err)
		qsort(&leaks->caller[line->first], line->caller_nr, sizeof(*leaks->caller), by_rate);
	return err;
}

/* Sites of one line and kind. */
static int push_leak_line(struct leaks *leaks, const struct leak_tally *tally, struct line_finder *finder,
		     const struct judged *judged, size_t nr)
{
	struct leak_line line = { .line = judged->line, .site_nr = nr, .is_summed = judged->sum };
	int err = push_callers(leaks, &line, tally, finder, judged, nr);

	for (size_t i = 0; i < nr; i++) {
		leak_tally_births(tally, judged[i].site, &judged[i].verdict, line.sixteenth);
		line.growth_bytes += leak_tally_growth(tally, judged[i].site);
	}
	leaks->kind_nr[line.verdict.kind]++;
	return err ?: array_push(leaks, line, line);
}

/* Sites that may be judged as one, and the numbers of those that were. */
struct summing {
	struct leak_tally *tally;
	uint32_t *site; /* room for all sites */
	uint32_t sum_nr;
};

/* Judges sites once more, as one. Each keeps its own verdict if the sum's is not at most `most`. */
static int judge_together(struct summing *summing, struct judged *judged, size_t nr, enum leak_kind most)
{
	struct leak_verdict verdict;
	int err;

	for (size_t i = 0; i < nr; i++)
		summing->site[i] = judged[i].site;
	err = leak_tally_judge(summing->tally, summing->site, nr, &verdict);
	if (err || verdict.kind > most)
		return err;
	summing->sum_nr++;
	for (size_t i = 0; i < nr; i++) {
		judged[i].verdict = verdict;
		judged[i].sum = summing->sum_nr;
	}
	return 0;
}

static bool is_same_row(const struct judged *a, const struct judged *b)
{
	return a->line == b->line && a->verdict.kind == b->verdict.kind && !a->sum == !b->sum;
}

static size_t count_same(const struct judged *judged, size_t nr)
{
	size_t same = 1;

	while (same < nr && is_same_row(judged, &judged[same]))
		same++;
	return same;
}

/* Sites of a line that have too few blocks each are judged once more, as one. */
static int sum_few(struct summing *summing, struct judged *judged, size_t nr)
{
	int err = 0;

	qsort(judged, nr, sizeof(*judged), by_line_and_kind);
	for (size_t i = 0; i < nr && !err;) {
		size_t same = count_same(judged + i, nr - i);

		if (judged[i].verdict.kind == LEAK_FEW && same > 1)
			err = judge_together(summing, judged + i, same, LEAK_LIKELY);
		i += same;
	}
	return err;
}

/* ---- code that was made anew ---------------------------------------------------------------- */

/* Whether the site can be a part of a leak that a compiler has cut into pieces: what it allocates stays. */
static bool is_piece(const struct judged *judged)
{
	static const bool stays[LEAK_KIND_NR] = {
		[LEAK_SURE] = true, [LEAK_LIKELY] = true, [LEAK_YOUNG] = true, [LEAK_SETTLED] = true, [LEAK_FEW] = true,
	};

	return judged->is_remade && stays[judged->verdict.kind];
}

static int by_piece(const void *left, const void *right)
{
	const struct judged *a = left, *b = right;

	return (int)is_piece(b) - (int)is_piece(a) ?: (a->line > b->line) - (a->line < b->line) ?:
	       (a->domain > b->domain) - (a->domain < b->domain) ?: (a->site > b->site) - (a->site < b->site);
}

static bool is_piece_of_same(const struct judged *a, const struct judged *b)
{
	return is_piece(b) && a->line == b->line && a->domain == b->domain;
}

/*
 * When a compiler makes code anew, the old traceback settles and a new one begins. Neither looks like a leak, so the
 * pieces of a line are judged once more, as one. A warm-up that another one follows looks alike: so the sum must leak
 * surely, or one of the pieces may leak by itself.
 */
static int sum_pieces(struct summing *summing, struct judged *judged, size_t nr)
{
	int err = 0;

	qsort(judged, nr, sizeof(*judged), by_piece);
	for (size_t i = 0, end; i < nr && is_piece(&judged[i]) && !err; i = end) {
		enum leak_kind best = judged[i].verdict.kind;

		for (end = i + 1; end < nr && is_piece_of_same(&judged[i], &judged[end]); end++)
			best = judged[end].verdict.kind < best ? judged[end].verdict.kind : best;
		if (end - i > 1)
			err = judge_together(summing, judged + i, end - i, best == LEAK_LIKELY ? LEAK_LIKELY : LEAK_SURE);
	}
	return err;
}

static int judge_sums(struct leak_tally *tally, struct judged *judged, size_t nr)
{
	struct summing summing = { .tally = tally, .site = calloc(nr ?: 1, sizeof(*summing.site)) };
	int err = summing.site ? sum_pieces(&summing, judged, nr) : -ENOMEM;

	err = err ?: sum_few(&summing, judged, nr);
	free(summing.site);
	return err;
}

/* ---- all lines ------------------------------------------------------------------------------ */

static int sum_lines(struct leaks *leaks, struct leak_tally *tally, struct line_finder *finder)
{
	size_t nr = tally->sites.site_nr;
	struct judged *judged = calloc(nr ?: 1, sizeof(*judged));
	int err = judged ? judge_sites(tally, finder, judged) : -ENOMEM;

	err = err ?: judge_sums(tally, judged, nr);
	if (!err)
		qsort(judged, nr, sizeof(*judged), by_line_and_kind);
	for (size_t i = 0; i < nr && !err;) {
		size_t same = count_same(judged + i, nr - i);

		err = push_leak_line(leaks, tally, finder, judged + i, same);
		i += same;
	}
	free(judged);
	return err;
}

/* The roles of all frames of the callers. */
static void keep_roles(struct leaks *leaks, struct source *source)
{
	const struct snapshot_tables *tables = source->tables;

	for (size_t i = 0; i < leaks->caller_nr; i++) {
		const struct snap_traceback *row = &tables->traceback[leaks->caller[i].traceback];

		for (uint32_t k = 0; k < row->nframe; k++)
			source_role(source, tables->traceback_frame[row->first + k]);
	}
	leaks->frame_role = source->frame_role;
	source->frame_role = NULL;
}

int leak_lines_make(struct leaks *leaks, struct leak_tally *tally, const struct engine_options *options,
		    struct reason *why)
{
	struct line_finder finder;
	int err = line_finder_init(&finder, tally->last, options);

	(void)why;
	err = err ?: sum_lines(leaks, tally, &finder);
	if (!err)
		keep_roles(leaks, &finder.source);
	line_finder_release(&finder);
	return err;
}

#define SIXTEENTHS 16
#define COMPARED_MOST 1000 /* lines of a kind, with the highest rates: comparing all with all takes too long */

/* ---- order ---------------------------------------------------------------------------------- */

static int by_kind_and_rate(const void *left, const void *right)
{
	const struct leak_line *a = left, *b = right;

	return (int)a->verdict.kind - (int)b->verdict.kind ?:
	       (a->verdict.bytes_per_s < b->verdict.bytes_per_s) - (a->verdict.bytes_per_s > b->verdict.bytes_per_s) ?:
	       (a->verdict.bytes < b->verdict.bytes) - (a->verdict.bytes > b->verdict.bytes) ?:
	       (a->line > b->line) - (a->line < b->line);
}

static int bundle_order(const void *left, const void *right, void *leaks_)
{
	const struct leak_bundle *a = left, *b = right;
	const struct leaks *leaks = leaks_;
	const struct leak_line *line_a = &leaks->line[a->first], *line_b = &leaks->line[b->first];

	return leak_rank(&line_a->verdict) - leak_rank(&line_b->verdict) ?:
	       (a->bytes_per_s < b->bytes_per_s) - (a->bytes_per_s > b->bytes_per_s) ?:
	       (a->first > b->first) - (a->first < b->first);
}

/* ---- which lines leak together -------------------------------------------------------------- */

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Whether survivors of both were born at the same times, one for one within 5 %. */
static bool leak_together(const struct leak_line *line, const struct leak_line *with)
{
	uint64_t sum = 0, apart = 0;

	for (int i = 0; i < SIXTEENTHS; i++) {
		sum += line->sixteenth[i];
		apart += distance(line->sixteenth[i], with->sixteenth[i]);
	}
	return sum >= LEAK_SURVIVORS_SURE && 20 * apart <= sum;
}

/* Moves the line behind the bundle's others; the order of the lines between stays. */
static void move_line(struct leak_line *line, size_t from, size_t to)
{
	struct leak_line moved = line[from];

	memmove(&line[to + 1], &line[to], (from - to) * sizeof(*line));
	line[to] = moved;
}

/* Lines from `end` on are not compared. */
static void gather_bundle(struct leaks *leaks, struct leak_bundle *bundle, size_t end)
{
	for (size_t i = bundle->first + 1; i < end; i++)
		if (leak_together(&leaks->line[i], &leaks->line[bundle->first]))
			move_line(leaks->line, i, bundle->first + bundle->nr++);
}

/* Where the lines end that may be in one bundle with lines of a kind that begins at `first`. */
static size_t find_compared_end(const struct leaks *leaks, size_t first)
{
	enum leak_kind kind = leaks->line[first].verdict.kind;
	size_t end = first;

	while (kind <= LEAK_LIKELY && end < leaks->line_nr && end - first < COMPARED_MOST &&
	       leaks->line[end].verdict.kind == kind)
		end++;
	return end;
}

/* ---- the common caller of such lines -------------------------------------------------------- */

static const uint32_t *frames_of(const struct snapshot_tables *tables, uint32_t traceback, uint32_t *ret_nr)
{
	*ret_nr = tables->traceback[traceback].nframe;
	return &tables->traceback_frame[tables->traceback[traceback].first];
}

static bool is_same_function(const struct snapshot_tables *tables, uint32_t a, uint32_t b)
{
	const struct snap_frame *row_a = &tables->frame[a], *row_b = &tables->frame[b];

	return a == b || (row_a->function && row_a->function == row_b->function &&
			  row_a->filename == row_b->filename && row_a->object == row_b->object);
}

/* How many of the oldest frames are the same: calls from the same places, and at last the same function. */
static uint32_t count_common(const struct snapshot_tables *tables, uint32_t first, uint32_t second)
{
	uint32_t nr_a, nr_b, same = 0;
	const uint32_t *a = frames_of(tables, first, &nr_a), *b = frames_of(tables, second, &nr_b);

	while (same < nr_a && same < nr_b && a[nr_a - 1 - same] == b[nr_b - 1 - same])
		same++;
	if (same < nr_a && same < nr_b && is_same_function(tables, a[nr_a - 1 - same], b[nr_b - 1 - same]))
		same++;
	return same;
}

static void find_caller(const struct leaks *leaks, struct leak_bundle *bundle)
{
	const struct snapshot_tables *tables = snapshot__tables(leaks->last);
	const struct leak_line *line = &leaks->line[bundle->first];
	uint32_t traceback = leak_line_caller(leaks, line)->traceback;
	uint32_t common = UINT32_MAX;

	for (size_t i = 1; i < bundle->nr; i++) {
		uint32_t nr = count_common(tables, traceback, leak_line_caller(leaks, &line[i])->traceback);

		common = nr < common ? nr : common;
	}
	bundle->caller = bundle->nr > 1 && common ? common - 1 : UINT32_MAX;
}

static void sum_bundle(const struct leaks *leaks, struct leak_bundle *bundle)
{
	bundle->since_ns = UINT64_MAX;
	for (size_t i = 0; i < bundle->nr; i++) {
		const struct leak_verdict *verdict = &leaks->line[bundle->first + i].verdict;

		bundle->bytes_per_s += verdict->bytes_per_s;
		bundle->least_bytes_per_s += verdict->least_bytes_per_s;
		bundle->since_ns = verdict->since_ns < bundle->since_ns ? verdict->since_ns : bundle->since_ns;
	}
}

int leak_bundles_make(struct leaks *leaks)
{
	size_t at = 0, end = 0;

	if (leaks->line_nr)
		qsort(leaks->line, leaks->line_nr, sizeof(*leaks->line), by_kind_and_rate);
	leaks->bundle = calloc(leaks->line_nr ?: 1, sizeof(*leaks->bundle));
	if (!leaks->bundle)
		return -ENOMEM;
	while (at < leaks->line_nr) {
		struct leak_bundle *bundle = &leaks->bundle[leaks->bundle_nr++];

		if (!at || leaks->line[at].verdict.kind != leaks->line[at - 1].verdict.kind)
			end = find_compared_end(leaks, at);
		*bundle = (struct leak_bundle){ .first = at, .nr = 1 };
		gather_bundle(leaks, bundle, end);
		find_caller(leaks, bundle);
		sum_bundle(leaks, bundle);
		at += bundle->nr;
	}
	qsort_r(leaks->bundle, leaks->bundle_nr, sizeof(*leaks->bundle), bundle_order, leaks);
	return 0;
}
