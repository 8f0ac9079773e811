// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/statistics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/reason.h"
#include "engine.h"
#include "engine/keys.h"
#include "engine/order.h"
#include "engine/selector.h"
#include "engine/told_samples.h"
#include "snapshot.h"

/*
 * The blocks that two snapshots of one process have in common: blocks with the same address and
 * birth. There is a set of enum pair for each trace; NULL if common blocks cannot be identified.
 */
struct pairing {
	uint8_t *old_pairs, *new_pairs;
};

/* ---- the same process ----------------------------------------------------------------------- */

static bool same_metadata(const struct snapshot *a, const struct snapshot *b, const char *key,
			  bool must_be_known)
{
	const char *of_a = snapshot__metadata(a, key), *of_b = snapshot__metadata(b, key);

	if (!of_a && !of_b)
		return !must_be_known;
	return of_a && of_b && !strcmp(of_a, of_b);
}

static bool is_same_process(const struct snapshot *a, const struct snapshot *b)
{
	static const char *const identity[] = { "pid", "start_time_ticks", "boot_id" };

	for (size_t i = 0; i < ARRAY_SIZE(identity); i++)
		if (!same_metadata(a, b, identity[i], true))
			return false;
	return same_metadata(a, b, "exec_count", false);
}

static bool has_identities(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	return tables->trace_address && tables->trace_birth_ns;
}

static uint64_t snapshot_last_gap_ns(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	return tables->gap_nr ? tables->gap[tables->gap_nr - 1].start_ns : 0;
}

/*
 * The start of the last gap of either snapshot, on their clock; 0: they have no gap, or are of
 * two processes.
 */
static uint64_t pairing_gap_ns(const struct snapshot *old, const struct snapshot *new)
{
	uint64_t of_old = snapshot_last_gap_ns(old), of_new = snapshot_last_gap_ns(new);

	if (!is_same_process(old, new))
		return 0;
	return of_old > of_new ? of_old : of_new;
}

/* ---- what was not recorded between them --------------------------------------------------------- */

static uint64_t grown_by(const struct snapshot *old, const struct snapshot *new, const char *key)
{
	uint64_t before = snapshot__metadata_u64(old, key, 0), now = snapshot__metadata_u64(new, key, 0);

	return now > before ? now - before : 0;
}

static uint64_t snapshot_time_ns(const struct snapshot *snapshot)
{
	return snapshot__metadata_u64(snapshot, "monotonic_ns", 0);
}

/* The metadata count all gaps up to the snapshot; the table of gaps has the latest ones only. */
struct unrecorded snapshots_unrecorded(const struct snapshot *one, const struct snapshot *other)
{
	bool in_order = snapshot_time_ns(one) <= snapshot_time_ns(other);
	const struct snapshot *old = in_order ? one : other, *new = in_order ? other : one;
	uint64_t began_ns = snapshot__metadata_u64(new, "recording_start_monotonic_ns", 0);
	struct unrecorded unrecorded = { .of_ns = snapshot_time_ns(new) - snapshot_time_ns(old) };

	if (!is_same_process(old, new))
		return (struct unrecorded){};
	unrecorded.is_other_recording = began_ns > snapshot_time_ns(old);
	if (unrecorded.is_other_recording) {
		unrecorded.gap_nr = 1 + snapshot__metadata_u64(new, "gap_count", 0);
		unrecorded.ns = began_ns - snapshot_time_ns(old) + snapshot__metadata_u64(new, "gaps_ns", 0);
	} else {
		unrecorded.gap_nr = grown_by(old, new, "gap_count");
		unrecorded.ns = grown_by(old, new, "gaps_ns");
	}
	return unrecorded.ns ? unrecorded : (struct unrecorded){};
}

/*
 * Whether a budget took samples between the two snapshots, as far as they know: true if they are not of one recording.
 */
static bool snapshots_thinned_between(const struct snapshot *old, const struct snapshot *new)
{
	return !is_same_process(old, new) || !same_metadata(old, new, "recording_start_monotonic_ns", true) ||
	       grown_by(old, new, "thinned_ns");
}

/* ---- the selected traces -------------------------------------------------------------------- */

/*
 * Marks each selected trace with 1; for key type age, a block's group changes with time, so with 1
 * + its age class.
 */
static int mark_chosen(uint8_t *mark, struct selector *selector, struct classes *classes)
{
	bool by_age = selector->source->options->key_type == KEY_AGE;
	uint32_t class = 0;
	int err = 0;

	for (uint64_t i = 0; i < selector->source->tables->trace_nr && !err; i++) {
		if (!selector_takes(selector, i))
			continue;
		if (by_age)
			err = age_classes.find(classes, i, &class);
		mark[i] = 1 + class;
	}
	return err;
}

/* Allocates and sets the marks, which later become pairs. 0, -ENOMEM, -ENODATA with a line in *why. */
static int mark_traces(uint8_t **ret, const struct snapshot *snapshot,
		       const struct engine_options *options, uint64_t gap_ns, struct reason *why)
{
	struct selector selector = {};
	struct classes classes = {};
	struct source source;
	int err;

	*ret = calloc(snapshot__tables(snapshot)->trace_nr + 1, 1);
	if (!*ret)
		return -ENOMEM;
	err = source_init(&source, snapshot, options);
	source.gap_ns = gap_ns;
	if (!err)
		err = selector_init(&selector, &source, why);
	classes.source = &source;
	if (!err && options->key_type == KEY_AGE)
		err = age_classes.prepare(&classes, why);
	if (!err)
		err = mark_chosen(*ret, &selector, &classes);
	selector_release(&selector);
	source_release(&source);
	return err;
}

/* ---- the same block ------------------------------------------------------------------------- */

static uint64_t hash_block(const struct snap_trace *trace)
{
	const uint64_t key[] = { trace->address, trace->birth_ns };

	return hash_bytes(key, sizeof(key), 0);
}

/*
 * Compares all properties: a pool's block may have the same address as a heap's. Blocks without a
 * birth are not compared, because they cannot be identified.
 */
static bool same_block(uint32_t id, const void *key, const void *old)
{
	const struct snap_trace trace = snapshot__trace(old, id), *want = key;

	return trace.address == want->address && trace.birth_ns == want->birth_ns &&
	       trace.size == want->size && trace.domain == want->domain &&
	       trace.thread == want->thread && trace.weight == want->weight;
}

static int index_blocks(struct idmap *ids, const struct snapshot *old, const uint8_t *mark)
{
	uint64_t nr = snapshot__tables(old)->trace_nr;
	int err = 0;

	for (uint64_t i = 0; i < nr && i < IDMAP_NONE && !err; i++) {
		struct snap_trace trace = snapshot__trace(old, i);

		if (mark[i] && trace.birth_ns)
			err = idmap_add(ids, hash_block(&trace), i);
	}
	return err;
}

static void pair_off(struct pairing *pairing, const struct idmap *ids, const struct snapshot *old,
		     const struct snapshot *new)
{
	for (uint64_t i = 0; i < snapshot__tables(new)->trace_nr; i++) {
		struct snap_trace trace = snapshot__trace(new, i);
		uint32_t at = pairing->new_pairs[i] ?
				      idmap_find(ids, hash_block(&trace), same_block, &trace, old) :
				      IDMAP_NONE;
		uint8_t pair = 0;

		if (at != IDMAP_NONE)
			pair = PAIR_IN_TOTAL | (pairing->old_pairs[at] == pairing->new_pairs[i] ?
						PAIR_IN_GROUP : 0);
		pairing->new_pairs[i] = pair;
		if (pair)
			pairing->old_pairs[at] = pair << 4; /* the lower half still has the marks of other traces */
	}
}

/*
 * Pairs the selected traces. Errors as from snapshot_compare(); release the pairing after an error,
 * too.
 */
static int pairing_find(struct pairing *pairing, const struct snapshot *old, const struct snapshot *new,
			const struct engine_options *options, struct reason *why)
{
	uint64_t gap_ns = pairing_gap_ns(old, new);
	struct idmap ids = {};
	int err;

	if (!is_same_process(old, new) || !has_identities(old) || !has_identities(new))
		return 0;
	err = mark_traces(&pairing->new_pairs, new, options, gap_ns, why);
	if (!err)
		err = mark_traces(&pairing->old_pairs, old, options, gap_ns, why);
	if (!err)
		err = index_blocks(&ids, old, pairing->old_pairs);
	if (!err)
		pair_off(pairing, &ids, old, new);
	for (uint64_t i = 0; !err && i < snapshot__tables(old)->trace_nr; i++)
		pairing->old_pairs[i] >>= 4;
	idmap_release(&ids);
	return err;
}

static void pairing_release(struct pairing *pairing)
{
	free(pairing->old_pairs);
	free(pairing->new_pairs);
	*pairing = (struct pairing){};
}

/* ---- one side -------------------------------------------------------------------------------- */

/*
 * The costs of one side, by key id. Keys beyond the end cost nothing. A zeroed struct is an empty
 * one.
 */
struct column {
	struct cost *cost;
	size_t cost_nr, cost_alloc;
	struct cost total;
	struct sums_column sums; /* set if estimates are requested */
	double unseen_bytes, unseen_apart_bytes; /* see struct weighing */
	bool is_open;
};

static void column_release(struct column *column)
{
	free(column->cost);
	sums_column_release(&column->sums);
}

static struct cost column_get(const struct column *column, size_t key)
{
	return key < column->cost_nr ? column->cost[key] : (struct cost){};
}

static int column_grow(struct column *column, uint32_t key)
{
	int err = array_reserve(&column->cost, &column->cost_alloc, key + 1ull);

	while (!err && column->cost_nr <= key)
		column->cost[column->cost_nr++] = (struct cost){};
	return err;
}

static int column_add(struct column *column, const struct key_list *list, const struct cost *cost,
		      struct reason *why)
{
	for (size_t i = 0; i < list->id_nr; i++) {
		uint32_t key = list->id[i];
		int err = key < column->cost_nr ? 0 : column_grow(column, key);

		if (!err)
			err = engine_cost_add(&column->cost[key], cost, why);
		if (err)
			return err;
	}
	return engine_cost_add(&column->total, cost, why);
}

static int column_add_costs(struct column *column, struct keyspace *keys,
			    struct key_source *source, const struct costs *costs,
			    struct reason *why)
{
	struct key_list list = {};
	int err = 0;

	for (size_t i = 0; i < costs->cost_nr && !err; i++) {
		if (!costs->cost[i].count)
			continue;
		err = keyspace_find(keys, source, i, &list);
		if (!err)
			err = column_add(column, &list, &costs->cost[i], why);
		if (!err && costs->sums)
			err = sums_column_add(&column->sums, &list, &costs->sums[i]);
	}
	column->sums.total = costs->total;
	free(list.id);
	return err;
}

/* Errors as from snapshot_statistics(); after one the column can only be released. */
static int column_fill(struct column *column, struct keyspace *keys, const struct side *side,
		struct reason *why)
{
	struct key_source source = {};
	struct costs costs = {};
	struct source traces;
	int err;

	column->unseen_bytes = side->weighing.unseen_bytes;
	column->unseen_apart_bytes = side->weighing.unseen_apart_bytes;
	column->is_open = side->weighing.is_open;
	err = source_init(&traces, side->snapshot, keys->options);
	if (side->weighing.gap_ns)
		traces.gap_ns = side->weighing.gap_ns;
	if (!err)
		err = key_source_init(&source, &traces);
	if (!err)
		err = costs_fill(&costs, &source.classes, &side->weighing, why);
	if (!err)
		err = column_add_costs(column, keys, &source, &costs, why);
	key_source_release(&source);
	source_release(&traces);
	costs_release(&costs);
	return err;
}

/* ---- what a result owns ---------------------------------------------------------------------- */

/* The first member is the caller's result; the others own the memory that it points into. */
struct result {
	struct statistics statistics;
	struct key_memory memory;
	struct estimate *estimate; /* for each key, then for the total; NULL if no estimates are requested */
};

/* ---- estimates ---------------------------------------------------------------------------- */

/* Reads a key's values from a column, or the total. */
static int side_get(struct estimate_side *side, const struct column *column, size_t key, bool is_total,
		    struct reason *why)
{
	side->sampled = is_total ? column->total : column_get(column, key);
	side->sums = is_total ? column->sums.total : sums_column_get(&column->sums, key);
	side->cost = side->sampled;
	side->unseen_bytes = column->unseen_bytes;
	side->unseen_apart_bytes = column->unseen_apart_bytes;
	side->is_open = column->is_open;
	return estimate_cost(&side->cost, &side->sums, why);
}

/* old is NULL for statistics(), here and below. Replaces the costs of samples by estimates. */
static int estimate_one(struct estimate *estimate, const struct column *new,
			const struct column *old, size_t key, bool is_total, struct cost ret_cost[2],
			struct reason *why)
{
	struct estimate_side now, before;
	int err = side_get(&now, new, key, is_total, why) ?:
		  side_get(&before, old ?: new, key, is_total, why);

	if (err)
		return err;
	*estimate = estimate_make(&now, old ? &before : NULL);
	ret_cost[0] = now.cost;
	ret_cost[1] = before.cost;
	return 0;
}

static int estimate_rows(struct statistic *row, size_t nr, struct estimate *estimate,
			 const struct column *new, const struct column *old, struct reason *why)
{
	struct cost cost[2];

	for (size_t i = 0; i < nr; i++) {
		int err = estimate_one(&estimate[i], new, old, i, false, cost, why);

		if (err)
			return err;
		row[i].cost = cost[0];
		row[i].diff = cost_sub(&cost[0], &cost[1]);
		row[i].estimate = &estimate[i];
	}
	return 0;
}

static int estimate_all(struct result *result, struct statistic *row, size_t nr,
			const struct column *new, const struct column *old, struct reason *why)
{
	struct cost cost[2];
	int err;

	result->estimate = calloc(nr + 1, sizeof(*result->estimate));
	if (!result->estimate)
		return -ENOMEM;
	err = estimate_rows(row, nr, result->estimate, new, old, why) ?:
	      estimate_one(&result->estimate[nr], new, old, 0, true, cost, why);
	if (err)
		return err;
	result->statistics.total = cost[0];
	result->statistics.total_diff = cost_sub(&cost[0], &cost[1]);
	result->statistics.total_estimate = &result->estimate[nr];
	return 0;
}

/* ---- the result --------------------------------------------------------------------------- */

static void rows_fill(struct statistic *row, size_t nr, const struct keyspace *keys,
		      const struct column *new, const struct column *old)
{
	for (size_t i = 0; i < nr; i++) {
		struct cost now = column_get(new, i), before = column_get(old ?: new, i);

		keyspace_view(keys, i, &row[i]);
		row[i].cost = now;
		row[i].diff = cost_sub(&now, &before);
	}
}

static void rows_sort(struct statistic *row, size_t nr, const struct keyspace *keys,
		      const struct column *old)
{
	if (old)
		statistics_sort_diff(row, nr, keys->options->sort);
	else
		statistics_sort(row, nr);
}

static void result_fill(struct result *result, struct keyspace *keys, struct statistic *row,
			size_t nr, const struct column *new, const struct column *old)
{
	rows_fill(row, nr, keys, new, old);
	result->memory = keyspace_take_memory(keys);
	result->statistics = (struct statistics){
		.key_type = keys->options->key_type,
		.measure = keys->options->measure,
		.cumulative = keys->options->cumulative,
		.is_diff = old != NULL,
		.statistic = row,
		.statistic_nr = nr,
		.total = new->total,
		.total_diff = cost_sub(&new->total, old ? &old->total : &new->total),
	};
}

static int result_make(struct keyspace *keys, const struct column *new, const struct column *old,
		       bool has_estimates, struct statistics **ret, struct reason *why)
{
	size_t nr = keyspace_nr(keys);
	struct statistic *row = calloc(nr ?: 1, sizeof(*row));
	struct result *result = calloc(1, sizeof(*result));
	int err = 0;

	if (!row || !result) {
		free(row);
		free(result);
		return -ENOMEM;
	}
	result_fill(result, keys, row, nr, new, old);
	if (has_estimates)
		err = estimate_all(result, row, nr, new, old, why);
	if (err) {
		statistics_free(&result->statistics);
		return err;
	}
	rows_sort(row, result->statistics.statistic_nr, keys, old);
	*ret = &result->statistics;
	return 0;
}

int engine_options_check(const struct engine_options *options, struct reason *why)
{
	if ((unsigned int)options->key_type >= KEY_TYPE_NR)
		return reason_set(why, -EINVAL, "no such key type: %u", options->key_type);
	if ((unsigned int)options->sort >= SORT_ORDER_NR)
		return reason_set(why, -EINVAL, "no such order: %u", options->sort);
	if (options->cumulative && !key_type_has_cumulative(options->key_type))
		return reason_set(why, -EINVAL, "cumulative mode cannot be used with key type "
						"\"%s\"", key_type_name(options->key_type));
	return measure_check(options, why);
}

static bool has_weights(const struct snapshot *snapshot)
{
	return snapshot && snapshot__tables(snapshot)->trace_weight;
}

/*
 * Whether the errors of estimates are not known. Blocks that were chosen may be missing, or gone: all that were born
 * after the last gap are known. Or the samples were not chosen by chance: pools. Or they must be doubted.
 */
static bool is_open(const struct snapshot *snapshot, const struct engine_options *options)
{
	struct reason why;

	return snapshot && ((snapshot__tables(snapshot)->gap_nr && !options->select.no_gap_blocks) ||
			    snapshot_samples_pools(snapshot) || told_samples_doubt(snapshot, &why));
}

static double coarsest_rate(const struct snapshot *snapshot)
{
	return has_weights(snapshot) ? snapshot__metadata_u64(snapshot, "sample_bytes_most", 0) : 0;
}

int statistics_make(const struct side *old, const struct side *new,
		    const struct engine_options *options, struct statistics **ret,
		    struct reason *why)
{
	struct column before = {}, now = {};
	struct keyspace keys;
	int err;

	keyspace_init(&keys, options);
	err = column_fill(&now, &keys, new, why);
	if (!err && old)
		err = column_fill(&before, &keys, old, why);
	if (!err)
		err = result_make(&keys, &now, old ? &before : NULL, new->weighing.is_asked, ret, why);
	column_release(&now);
	column_release(&before);
	keyspace_release(&keys);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

static int ask_both(const struct snapshot *old, const struct snapshot *new,
		    const struct engine_options *options, const struct pairing *pairing,
		    struct statistics **ret, struct reason *why)
{
	bool is_asked = !options->measure && (has_weights(old) || has_weights(new));
	uint64_t gap_ns = old ? pairing_gap_ns(old, new) : 0;
	double unseen = coarsest_rate(new), old_unseen = old ? coarsest_rate(old) : 0;
	bool is_later = old && !snapshots_thinned_between(old, new);
	const struct side before = { old, { is_asked, pairing->old_pairs, gap_ns, NULL, old_unseen, old_unseen,
					    is_open(old, options) } };
	const struct side now = { new, { is_asked, pairing->new_pairs, gap_ns, NULL, unseen, is_later ? 0 : unseen,
					 is_open(new, options) } };

	return statistics_make(old ? &before : NULL, &now, options, ret, why);
}

static int compute_statistics(const struct snapshot *old, const struct snapshot *new,
			      const struct engine_options *options, struct statistics **ret, struct reason *why)
{
	struct pairing pairing = {};
	int err;

	err = engine_options_check(options, why);
	if (!err && has_weights(old) && has_weights(new) && !options->measure)
		err = pairing_find(&pairing, old, new, options, why);
	if (!err)
		err = ask_both(old, new, options, &pairing, ret, why);
	pairing_release(&pairing);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

int snapshot_statistics(const struct snapshot *snapshot, const struct engine_options *options,
			struct statistics **ret, struct reason *why)
{
	return compute_statistics(NULL, snapshot, options, ret, why);
}

int snapshot_compare(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot,
		     const struct engine_options *options, struct statistics **ret,
		     struct reason *why)
{
	return compute_statistics(old_snapshot, new_snapshot, options, ret, why);
}

void statistics_free(struct statistics *statistics)
{
	struct result *result = (struct result *)statistics;

	if (!result)
		return;
	free(result->memory.views);
	free(result->memory.texts);
	free(result->estimate);
	free(statistics->statistic);
	free(result);
}
