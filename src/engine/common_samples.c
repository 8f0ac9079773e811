// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/common_samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "engine/key_type.h"
#include "engine/selector.h"
#include "snapshot.h"

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

uint64_t pairing_gap_ns(const struct snapshot *old, const struct snapshot *new)
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

bool snapshots_thinned_between(const struct snapshot *old, const struct snapshot *new)
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

int pairing_find(struct pairing *pairing, const struct snapshot *old, const struct snapshot *new,
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

void pairing_release(struct pairing *pairing)
{
	free(pairing->old_pairs);
	free(pairing->new_pairs);
	*pairing = (struct pairing){};
}
