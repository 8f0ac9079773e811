// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_lines.h"

#include <errno.h>
#include <stdlib.h>

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
	uint32_t sum; /* those of one number were judged as one; 0: judged by itself */
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
