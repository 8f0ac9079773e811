// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/trace_cost.h"
#include "fleet/group_sums.h"
#include "fleet/per_host.h"
#include "fleet/parallel_scan.h"

/* The values of nr hosts, ascending: first a zero for each host that has nothing, then the bytes of the others. */
struct ranked {
	const int64_t *bytes; /* nr - zeros values, sorted, none below 0 */
	size_t zeros, nr;     /* nr: at least 1 */
};

static int64_t quantiles_get(const struct ranked *ranked, size_t at)
{
	return at < ranked->zeros ? 0 : ranked->bytes[at - ranked->zeros];
}

size_t nearest_rank(size_t nr, unsigned int percent)
{
	return (nr * percent + 99) / 100;
}

/* The value at the nearest rank: number ceil(percent / 100 × nr), from 1. */
static int64_t quantiles_quantile(const struct ranked *ranked, unsigned int percent)
{
	return quantiles_get(ranked, nearest_rank(ranked->nr, percent) - 1);
}

/* Walks outwards from the median, each time to the nearer of the two neighbours, until half of all values are met. */
/* The median of the distances from the median. */
static int64_t quantiles_mad(const struct ranked *ranked)
{
	size_t rank = nearest_rank(ranked->nr, 50), low = rank - 1, high = low;
	int64_t median = quantiles_get(ranked, low), distance = 0;

	if (!median && ranked->zeros >= rank)
		return 0; /* usual if few hosts have the group */
	while (high - low < rank) {
		int64_t below = low ? median - quantiles_get(ranked, low - 1) : INT64_MAX;
		int64_t above = high < ranked->nr ? quantiles_get(ranked, high) - median : INT64_MAX;

		if (low && (high == ranked->nr || below < above)) {
			distance = below;
			low--;
		} else {
			distance = above;
			high++;
		}
	}
	return distance;
}

/* ---- what each host has: a sparse list, since most hosts lack most groups ----------------------- */

struct holding {
	uint32_t group, host;
	int64_t bytes;
};

struct host_lane {
	struct group_sums sums; /* of the host that is being read */
	uint32_t host;
	struct holding *holding;
	size_t holding_nr, holding_alloc;
};

struct host_fold {
	const struct fleet_question *question;
	struct host_lane lane[WALK_LANES];
};

static int host_fold_add_snapshot(void *what, unsigned int number, const struct fleet_snapshot *snapshot,
				  const struct fleet_rows *rows, struct reason *why)
{
	struct host_fold *fold = what;
	struct host_lane *lane = &fold->lane[number];
	int err = lane->sums.groups ? 0 : group_sums_init(&lane->sums, fold->question->groups);

	lane->host = snapshot->host_nr;
	return err ?: group_sums_add(&lane->sums, rows, why);
}

static int end_host(void *what, unsigned int number, struct reason *why)
{
	struct host_lane *lane = &((struct host_fold *)what)->lane[number];
	int err = 0;

	for (size_t i = 0; i < lane->sums.used_nr && !err; i++) {
		struct holding holding = { .group = lane->sums.used[i], .host = lane->host };

		err = group_sums_get(&lane->sums, holding.group, &holding.bytes, why);
		if (!err)
			err = array_push(lane, holding, holding);
	}
	group_sums_clear(&lane->sums);
	return err;
}

static void host_fold_release(struct host_fold *fold)
{
	for (size_t i = 0; i < WALK_LANES; i++) {
		group_sums_release(&fold->lane[i].sums);
		free(fold->lane[i].holding);
	}
}

/* Chooses the last snapshot of each process. */
static int choose_latest(const struct cohort *all, struct cohort *ret)
{
	int err = 0;

	*ret = (struct cohort){ .process_nr = all->process_nr, .host_nr = all->host_nr };
	for (size_t i = 0; i < all->snapshot_nr && !err; i++)
		if (i + 1 == all->snapshot_nr ||
		    all->snapshot[i + 1]->process != all->snapshot[i]->process)
			err = array_push(ret, snapshot, all->snapshot[i]);
	return err;
}

static int walk_latest_snapshots(struct host_fold *fold, struct reason *why)
{
	const struct fleet_question *question = fold->question;
	struct cohort latest;
	const struct walk walk = {
		.catalogue = question->catalogue,
		.cohort = &latest,
		.origin_nr = question->facts->origin_nr,
		.unit = WALK_BY_HOST,
		.visit = host_fold_add_snapshot,
		.unit_end = end_host,
		.what = fold,
	};
	int err = choose_latest(question->cohort, &latest);

	if (!err)
		err = fleet_walk(&walk, why);
	free(latest.snapshot);
	return err;
}

/* ---- by group ------------------------------------------------------------------------------- */

/* The bytes of group g are bytes[first[g] … first[g + 1]). */
struct holders {
	size_t *first;
	int64_t *bytes;
};

static void holders_release(struct holders *holders)
{
	free(holders->first);
	free(holders->bytes);
}

/*
 * Finds where each group's bytes begin, stored one place late: first[g + 1] is the begin of g. Filling then moves it
 * to the begin of g + 1.
 */
static int holders_init(struct holders *holders, const struct host_fold *fold, size_t group_nr)
{
	size_t nr = 0;

	holders->first = calloc(group_nr + 2, sizeof(*holders->first));
	if (!holders->first)
		return -ENOMEM;
	for (size_t i = 0; i < WALK_LANES; i++) {
		nr += fold->lane[i].holding_nr;
		for (size_t k = 0; k < fold->lane[i].holding_nr; k++)
			holders->first[fold->lane[i].holding[k].group + 2]++;
	}
	for (size_t i = 2; i < group_nr + 2; i++)
		holders->first[i] += holders->first[i - 1];
	holders->bytes = calloc(nr ?: 1, sizeof(*holders->bytes));
	return holders->bytes ? 0 : -ENOMEM;
}

const char **fleet_host_names(const struct fleet_facts *facts)
{
	const char **name = calloc(facts->host_nr + 1ull, sizeof(*name));

	for (size_t i = 0; name && i < facts->snapshot_nr; i++)
		name[facts->snapshot[i].host_nr] = facts->snapshot[i].host;
	return name;
}

static int add_holding(struct host_row *row, const struct holding *holding, const char *const *name,
		       struct reason *why)
{
	bool is_first = !row->hosts++;

	if (is_first || holding->bytes > row->max ||
	    (holding->bytes == row->max && strcmp(name[holding->host], name[row->max_host]) < 0)) {
		row->max = holding->bytes;
		row->max_host = holding->host;
	}
	return __builtin_add_overflow(row->sum, holding->bytes, &row->sum) ? cost_too_much(why) : 0;
}

static int collect_lane(struct holders *holders, struct host_row *row, struct host_lane *lane,
			const char *const *name, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < lane->holding_nr && !err; i++) {
		const struct holding *holding = &lane->holding[i];

		holders->bytes[holders->first[holding->group + 1]++] = holding->bytes;
		err = add_holding(&row[holding->group], holding, name, why);
	}
	free(lane->holding);
	lane->holding = NULL;
	return err;
}

static int collect_holders(struct holders *holders, struct host_row *row, struct host_fold *fold,
			   struct reason *why)
{
	const char **name = fleet_host_names(fold->question->facts);
	int err = name ? 0 : -ENOMEM;

	for (size_t i = 0; i < WALK_LANES && !err; i++)
		err = collect_lane(holders, row, &fold->lane[i], name, why);
	free(name);
	return err;
}

/* ---- outliers ---------------------------------------------------------------------------- */

#define DEVIATION_MAD 0.6745 /* the MAD of a normal distribution, in standard deviations */
#define OUTLIER_DEVIATIONS 3.5
#define FLOOR_BYTES 4096.0
#define FLOOR_SHARE 100.0

/* The floor is for hosts that are nearly equal: a difference that matters to no user would be many times the MAD. */
static double outlier_unit(const struct host_row *row)
{
	double floor = row->median / FLOOR_SHARE;

	return fmax(row->mad, fmax(floor, FLOOR_BYTES));
}

static void find_outliers(struct host_row *row, const struct ranked *ranked)
{
	double unit = outlier_unit(row);
	size_t at = ranked->nr;

	while (at && quantiles_get(ranked, at - 1) - row->median > OUTLIER_DEVIATIONS / DEVIATION_MAD * unit)
		at--;
	row->outliers = ranked->nr - at;
}

static int by_bytes(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

static void rank_row(struct host_row *row, int64_t *bytes, size_t host_nr)
{
	const struct ranked ranked = { bytes, host_nr - row->hosts, host_nr };

	qsort(bytes, row->hosts, sizeof(*bytes), by_bytes);
	row->median = quantiles_quantile(&ranked, 50);
	row->p95 = quantiles_quantile(&ranked, 95);
	row->mad = quantiles_mad(&ranked);
	find_outliers(row, &ranked);
}

/* ---- the answer ----------------------------------------------------------------------------- */

static int by_distance(const void *left, const void *right, void *groups)
{
	const struct host_row *a = left, *b = right;
	int64_t over_a = a->max - a->median, over_b = b->max - b->median;

	return (!a->outliers - !b->outliers) ?: (over_a < over_b) - (over_a > over_b) ?:
	       (a->sum < b->sum) - (a->sum > b->sum) ?: group_compare_keys(groups, a->group, b->group);
}

void host_rows_sort(struct host_rows *rows, const struct groups *groups)
{
	for (size_t i = 0; i < rows->row_nr; i++) {
		struct host_row *row = &rows->row[i];

		row->score = (row->max - row->median) * DEVIATION_MAD / outlier_unit(row);
	}
	if (rows->row_nr)
		qsort_r(rows->row, rows->row_nr, sizeof(*rows->row), by_distance, (void *)groups);
}

/* Drops the rows of groups that no host has, and ranks the others. */
static void finish_rows(struct host_rows *rows, const struct holders *holders,
			const struct fleet_question *question)
{
	size_t group_nr = question->groups->key_nr;

	for (size_t i = 0; i < group_nr; i++) {
		struct host_row *row = &rows->row[i];

		if (!row->hosts)
			continue;
		row->group = i;
		rank_row(row, &holders->bytes[holders->first[i]], question->cohort->host_nr);
		rows->row[rows->row_nr++] = *row;
	}
	host_rows_sort(rows, question->groups);
}

static int make_host_rows(struct host_fold *fold, struct host_rows *rows, struct reason *why)
{
	size_t group_nr = fold->question->groups->key_nr;
	struct holders holders = {};
	int err = holders_init(&holders, fold, group_nr);

	rows->row = calloc(group_nr ?: 1, sizeof(*rows->row));
	if (!rows->row)
		err = -ENOMEM;
	if (!err)
		err = collect_holders(&holders, rows->row, fold, why);
	if (!err)
		finish_rows(rows, &holders, fold->question);
	holders_release(&holders);
	return err;
}

int fleet_compare_hosts(const struct fleet_question *question, struct host_rows *ret, struct reason *why)
{
	struct host_fold fold = { .question = question };
	struct host_rows rows = {};
	int err = walk_latest_snapshots(&fold, why);

	if (!err)
		err = make_host_rows(&fold, &rows, why);
	host_fold_release(&fold);
	if (err)
		host_rows_release(&rows);
	else
		*ret = rows;
	return cohort_explain_error(err, &question->cohort, 1, why);
}

void host_rows_release(struct host_rows *rows)
{
	free(rows->row);
	*rows = (struct host_rows){};
}
