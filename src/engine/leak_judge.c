// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/leak_judge.h"

#include <math.h>

#include "base/array.h"

#define SECOND 1e9
#define ONE_SIDED_95 1.645

typedef __int128 wide;

/* ---- times ---------------------------------------------------------------------------------- */

uint32_t leak_horizons(const struct leak_window *window, uint64_t horizon_ns[LEAK_HORIZONS])
{
	static const uint8_t halves[LEAK_HORIZONS] = { 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 }; /* of a step */
	uint32_t nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(halves); i++)
		if (3u * halves[i] <= 4ull * window->snapshot_nr)
			horizon_ns[nr++] = (wide)window->span_ns * halves[i] / (2ull * window->snapshot_nr);
	return nr;
}

/* How many gaps begin at ns or before. */
static uint32_t count_gaps_by(const struct leak_window *window, uint64_t ns)
{
	return array_first(window->gap_nr, i, window->gap[i].begin_ns > ns);
}

/* The sum of the gaps before ns; a gap that goes on counts until ns. */
static uint64_t sum_gaps_until(const struct leak_window *window, uint64_t ns)
{
	uint32_t nr = count_gaps_by(window, ns);
	const struct leak_gap *last;

	if (!nr)
		return 0;
	last = &window->gap[nr - 1];
	return last->earlier_ns + (last->end_ns < ns ? last->end_ns : ns) - last->begin_ns;
}

uint64_t leak_recorded_ns(const struct leak_window *window, uint64_t begin_ns, uint64_t end_ns)
{
	return end_ns - begin_ns - (sum_gaps_until(window, end_ns) - sum_gaps_until(window, begin_ns));
}

/* ---- one block that grows ------------------------------------------------------------------- */

static bool is_more(double before, double after)
{
	return 20 * after > 21 * before; /* by more than 5 % */
}

void leak_growth_add(struct leak_growth *growth, const struct leak_window *window, uint32_t at, double bytes,
		     double count)
{
	double before = growth->last_bytes;

	if (bytes > 0 && !(growth->first_bytes > 0)) {
		growth->first_bytes = bytes;
		growth->first_count = count;
		growth->first_ns = window->snapshot_ns[at];
		growth->count_min = count;
	}
	if (before > 0) {
		growth->ups += is_more(before, bytes);
		growth->has_fallen |= bytes < before;
	}
	/* a step from snapshot at - 1, which must not be before the middle one */
	if (at >= window->snapshot_nr / 2 && at && is_more(before, bytes))
		growth->is_late = true;
	if (count > 0 && count < growth->count_min)
		growth->count_min = count;
	if (count > growth->count_max)
		growth->count_max = count;
	growth->last_bytes = bytes;
	growth->last_count = count;
}

static bool is_growing_block(const struct leak_growth *growth)
{
	double least = growth->count_min > 1 ? growth->count_min : 1;

	return growth->ups >= 2 && !growth->has_fallen && growth->is_late && growth->last_count > 0 &&
	       growth->last_count == growth->first_count && growth->count_max <= 3 * least;
}

static double growth_rate(const struct leak_growth *growth, uint64_t now_ns)
{
	return now_ns > growth->first_ns ?
		       (growth->last_bytes - growth->first_bytes) * SECOND / (now_ns - growth->first_ns) : 0;
}

/* ---- survivors ------------------------------------------------------------------------------ */

static size_t count_born_by(const struct leak_evidence *evidence, uint64_t ns)
{
	return array_first(evidence->block_nr, i, evidence->block[i].birth_ns > ns);
}

/* The least age from which on at most 5 % were freed; false: no such age, or too few blocks. */
static bool find_horizon(const struct leak_window *window, const struct leak_evidence *evidence,
			 struct leak_verdict *ret)
{
	uint64_t horizon_ns[LEAK_HORIZONS];
	uint32_t nr = leak_horizons(window, horizon_ns);

	for (uint32_t i = 0; i < nr; i++) {
		size_t alive = count_born_by(evidence, window->span_ns - horizon_ns[i]);
		uint64_t freed = evidence->history->freed[i];

		if (alive < LEAK_SURVIVORS_LEAST || 19 * (wide)freed > alive)
			continue;
		ret->horizon_ns = horizon_ns[i];
		ret->survivors = alive;
		ret->freed = freed;
		return true;
	}
	return false;
}

double leak_lower_bound(double rate, uint64_t blocks)
{
	double share = blocks ? 1 - ONE_SIDED_95 / sqrt(blocks) : 0;

	return share > 0 ? rate * share : 0;
}

/* Measures the rate of births in the second half of the survivors' time: the first may be a warm-up. */
static void measure_rate(const struct leak_window *window, const struct leak_evidence *evidence,
			 struct leak_verdict *verdict)
{
	uint64_t born_ns = window->span_ns - verdict->horizon_ns;
	uint64_t late_ns = leak_recorded_ns(window, born_ns / 2, born_ns);
	double bytes = 0, blocks = 0;

	for (size_t i = 0; i < verdict->survivors; i++) {
		const struct leak_block *block = &evidence->block[i];

		verdict->bytes += block->bytes;
		if (2 * (wide)block->birth_ns < born_ns)
			continue;
		verdict->late++;
		bytes += block->bytes;
		blocks += block->weight;
	}
	verdict->early = verdict->survivors - verdict->late;
	if (late_ns) {
		verdict->bytes_per_s = bytes * SECOND / late_ns;
		verdict->blocks_per_s = blocks * SECOND / late_ns;
	}
	verdict->least_bytes_per_s = leak_lower_bound(verdict->bytes_per_s, verdict->late);
}

/* Counts the periods that have births, of those from the first one on in which anything was recorded. */
static void count_periods(const struct leak_window *window, const struct leak_evidence *evidence,
			  struct leak_verdict *verdict)
{
	uint64_t born_ns = window->span_ns - verdict->horizon_ns;
	bool has[LEAK_PERIODS] = {}, is_begun = false;

	for (size_t i = verdict->survivors / 50; i < verdict->survivors; i++) {
		uint64_t period = (wide)evidence->block[i].birth_ns * LEAK_PERIODS / born_ns;

		has[period < LEAK_PERIODS ? period : LEAK_PERIODS - 1] = true;
	}
	for (uint32_t i = 0; i < LEAK_PERIODS; i++) {
		uint64_t begin = (wide)born_ns * i / LEAK_PERIODS, end = (wide)born_ns * (i + 1) / LEAK_PERIODS;

		is_begun |= has[i];
		verdict->periods += has[i];
		if (is_begun)
			verdict->span += has[i] || (wide)leak_recorded_ns(window, begin, end) * 10 * LEAK_PERIODS >
							  (wide)3 * born_ns;
	}
}

/* Whether late / early, each by the time recorded, is below numerator / 4. */
static bool is_slower(const struct leak_window *window, const struct leak_verdict *verdict, unsigned int numerator)
{
	uint64_t born_ns = window->span_ns - verdict->horizon_ns;
	uint64_t early_ns = leak_recorded_ns(window, 0, born_ns / 2);
	uint64_t late_ns = leak_recorded_ns(window, born_ns / 2, born_ns);

	return early_ns && (wide)4 * verdict->late * early_ns < (wide)numerator * verdict->early * late_ns;
}

static bool went_at_once(const struct leak_window *window, const struct leak_history *history, uint64_t since_ns)
{
	return history->gone_most >= 8 && 5 * (wide)history->gone_most >= 4 * (wide)history->gone &&
	       since_ns >= window->snapshot_ns[history->gone_most_at];
}

static double survivors_weight(const struct leak_evidence *evidence, const struct leak_verdict *verdict)
{
	double sum = 0;

	for (size_t i = 0; i < verdict->survivors; i++)
		sum += evidence->block[i].weight;
	return sum;
}

/* How many frees the gaps have hidden at most, if blocks are freed in gaps as they are between them. */
static double count_ghosts(const struct leak_window *window, const struct leak_evidence *evidence)
{
	double share = (double)window->gaps_ns / window->span_ns, rest = 1 - share;
	double freed = evidence->allocated - evidence->live;

	return freed > 0 ? freed * share / (rest > 0.01 ? rest : 0.01) : 0;
}

static unsigned int find_doubts(const struct leak_window *window, const struct leak_evidence *evidence,
				const struct leak_verdict *verdict)
{
	unsigned int doubts = 0;

	if (verdict->survivors < LEAK_SURVIVORS_SURE || verdict->late < 4)
		doubts |= LEAK_DOUBT_FEW;
	if (verdict->span < 3 || 5 * verdict->periods < 3 * verdict->span)
		doubts |= LEAK_DOUBT_BURSTS;
	if (is_slower(window, verdict, 2))
		doubts |= LEAK_DOUBT_SLOWING;
	if (survivors_weight(evidence, verdict) < 3 * count_ghosts(window, evidence))
		doubts |= LEAK_DOUBT_GAPS;
	if (went_at_once(window, evidence->history, verdict->since_ns))
		doubts |= LEAK_DOUBT_BATCH;
	return doubts;
}

/* Whether the survivors are from the last one and a half of the eight periods. */
static bool is_young(const struct leak_window *window, const struct leak_verdict *verdict)
{
	return 16 * (wide)verdict->since_ns > 13 * (wide)(window->span_ns - verdict->horizon_ns);
}

/* Whether a quarter of a time was recorded, or more: what is not born in it has stopped. */
static bool is_seen_since(const struct leak_window *window, uint64_t begin_ns)
{
	return 4 * (wide)leak_recorded_ns(window, begin_ns, window->span_ns) >= (wide)(window->span_ns - begin_ns);
}

static void judge_survivors(const struct leak_window *window, const struct leak_evidence *evidence,
			    struct leak_verdict *verdict)
{
	verdict->since_ns = evidence->block[verdict->survivors / 50].birth_ns;
	verdict->last_ns = evidence->block[verdict->survivors - 1].birth_ns;
	measure_rate(window, evidence, verdict);
	count_periods(window, evidence, verdict);
	verdict->doubts = find_doubts(window, evidence, verdict);
	if (!verdict->late || is_slower(window, verdict, 1))
		verdict->kind = is_seen_since(window, verdict->last_ns) ? LEAK_SETTLED : LEAK_GAPS;
	else if (is_young(window, verdict))
		verdict->kind = LEAK_YOUNG;
	else if (survivors_weight(evidence, verdict) < count_ghosts(window, evidence))
		verdict->kind = LEAK_GAPS;
	else
		verdict->kind = verdict->doubts ? LEAK_LIKELY : LEAK_SURE;
}

static void judge_without_survivors(const struct leak_window *window, const struct leak_evidence *evidence,
				    struct leak_verdict *verdict)
{
	const struct leak_history *history = evidence->history;

	verdict->kind = evidence->block_nr + history->gone < LEAK_SURVIVORS_LEAST ? LEAK_FEW : LEAK_FREED;
	if (!evidence->block_nr || !is_growing_block(&history->growth))
		return;
	verdict->kind = LEAK_GROWS;
	verdict->bytes_per_s = growth_rate(&history->growth, window->span_ns);
	verdict->bytes = history->growth.last_bytes;
	verdict->since_ns = history->growth.first_ns;
	verdict->survivors = evidence->block_nr;
	verdict->periods = verdict->span = history->growth.ups;
}

/* ---- births alone --------------------------------------------------------------------------- */

/* How long the block is known to have lived: until the next gap. */
static uint64_t known_age(const struct leak_window *window, uint64_t birth_ns)
{
	uint32_t next = count_gaps_by(window, birth_ns);

	return (next < window->gap_nr ? window->gap[next].begin_ns : window->span_ns) - birth_ns;
}

struct quarters {
	uint64_t nr[4];
	uint64_t young; /* blocks younger than the horizon */
};

static void sort_by_quarter(const struct leak_window *window, const struct leak_evidence *evidence,
			    struct leak_verdict *verdict, struct quarters *quarters)
{
	uint64_t born_ns = window->span_ns - verdict->horizon_ns;
	double bytes = 0, blocks = 0;

	for (size_t i = 0; i < evidence->block_nr; i++) {
		const struct leak_block *block = &evidence->block[i];
		uint64_t quarter = (wide)block->birth_ns * 4 / born_ns;

		quarters->young += block->birth_ns > born_ns;
		if (block->birth_ns > born_ns || known_age(window, block->birth_ns) < verdict->horizon_ns)
			continue;
		if (!verdict->survivors++)
			verdict->since_ns = block->birth_ns;
		verdict->last_ns = block->birth_ns;
		verdict->bytes += block->bytes;
		quarters->nr[quarter < 4 ? quarter : 3]++;
		if (2 * (wide)block->birth_ns >= born_ns) {
			bytes += block->bytes;
			blocks += block->weight;
		}
	}
	verdict->bytes_per_s = 2 * bytes * SECOND / born_ns;
	verdict->blocks_per_s = 2 * blocks * SECOND / born_ns;
}

/* A leak leaves as many blocks of each quarter; blocks that are freed leave fewer of the older ones. */
static void judge_births(const struct leak_window *window, const struct leak_evidence *evidence,
			 struct leak_verdict *verdict)
{
	struct quarters quarters = {};
	uint64_t least = UINT64_MAX;

	verdict->horizon_ns = window->span_ns / 4;
	sort_by_quarter(window, evidence, verdict, &quarters);
	for (int i = 0; i < 4; i++) {
		least = quarters.nr[i] < least ? quarters.nr[i] : least;
		verdict->periods += quarters.nr[i] > 0;
	}
	verdict->span = 4;
	verdict->early = quarters.nr[0] + quarters.nr[1];
	verdict->late = quarters.nr[2] + quarters.nr[3];
	verdict->least_bytes_per_s = leak_lower_bound(verdict->bytes_per_s, verdict->late);
	verdict->doubts = LEAK_DOUBT_SNAPSHOTS;
	if (verdict->survivors < 8)
		verdict->kind = LEAK_FEW;
	else if (4 * verdict->late < verdict->early)
		verdict->kind = LEAK_SETTLED;
	else if (80 * least >= 7 * verdict->survivors && quarters.young <= verdict->survivors + 4)
		verdict->kind = LEAK_LIKELY;
	else
		verdict->kind = LEAK_FREED;
}

struct leak_verdict leak_judge(const struct leak_window *window, const struct leak_evidence *evidence)
{
	struct leak_verdict verdict = { .allocated = evidence->allocated, .live = evidence->live,
					.gone = evidence->history->gone };

	if (window->snapshot_nr < LEAK_SNAPSHOTS_LEAST)
		judge_births(window, evidence, &verdict);
	else if (find_horizon(window, evidence, &verdict))
		judge_survivors(window, evidence, &verdict);
	else
		judge_without_survivors(window, evidence, &verdict);
	return verdict;
}
