// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/traceback_versions.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "collect/build/resolve_tracebacks.h"
#include "collect/build/sample_weight.h"
#include "process/mapping_history.h"

/* ---- retired tracebacks ---- */

size_t retired_most(size_t target_nr)
{
	size_t most = RETIRED_ALL / (target_nr ?: 1);

	if (most > RETIRED_MOST)
		return RETIRED_MOST;
	return most > RETIRED_LEAST ? most : RETIRED_LEAST;
}

/* A retired traceback and the bytes that it has allocated. */
struct candidate {
	uint64_t bytes;
	size_t index;
};

static int most_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) :
				      (x->index < y->index) - (x->index > y->index);
}

static size_t count_not_held(const struct tracebacks *tracebacks)
{
	return array_count(tracebacks->traceback_nr, i, !tracebacks->traceback[i].is_held);
}

static void mark_used_tracebacks(const struct tracebacks *tracebacks, const struct image_blocks *blocks, bool *stays)
{
	for (const struct block_chunk *chunk = blocks ? blocks->chunk : NULL; chunk; chunk = chunk->next)
		for (size_t i = 0; i < chunk->nr; i++) {
			const struct known_traceback *known = tracebacks_find(tracebacks, chunk->block[i].traceback);

			if (known)
				stays[known - tracebacks->traceback] = true;
		}
}

/* A version lies behind the one before. */
static void mark_versions(const struct tracebacks *tracebacks, bool *stays)
{
	for (size_t i = 0; i < tracebacks->traceback_nr; i++)
		if (stays[i] && tracebacks->traceback[i].next_id)
			stays[tracebacks_find(tracebacks, tracebacks->traceback[i].next_id) - tracebacks->traceback] =
				true;
}

/* Finds the tracebacks for which stays[] is not set, sorted by bytes, the most first. */
static size_t find_retired(const struct tracebacks *tracebacks, const bool *stays, struct candidate *ret)
{
	size_t nr = 0;

	for (size_t i = 0; i < tracebacks->traceback_nr; i++)
		if (!stays[i])
			ret[nr++] = (struct candidate){ tracebacks->traceback[i].retired.allocated_bytes, i };
	qsort(ret, nr, sizeof(*ret), most_first);
	return nr;
}

/* Decides which tracebacks stay. 0, 1 (nothing to forget), or -ENOMEM. */
static int choose_retired(const struct tracebacks *tracebacks, const struct image_blocks *blocks, size_t most,
			  bool *stays)
{
	struct candidate *retired = calloc(tracebacks->traceback_nr, sizeof(*retired));
	size_t nr;

	if (!retired)
		return -ENOMEM;
	for (size_t i = 0; i < tracebacks->traceback_nr; i++)
		stays[i] = tracebacks->traceback[i].is_held;
	mark_used_tracebacks(tracebacks, blocks, stays);
	mark_versions(tracebacks, stays);
	nr = find_retired(tracebacks, stays, retired);
	for (size_t i = 0; i < nr && i < most; i++)
		stays[retired[i].index] = true;
	mark_versions(tracebacks, stays);
	free(retired);
	return nr <= most;
}

/* Maps the ids of the tracebacks that stay to their new indices. */
static int make_traceback_ids(const struct tracebacks *tracebacks, const bool *stays, struct idmap *ids)
{
	uint32_t to = 0;
	int err = 0;

	for (size_t i = 0; i < tracebacks->traceback_nr && !err; i++)
		if (stays[i])
			err = idmap_add(ids, hash_number(tracebacks->traceback[i].id), to++);
	return err;
}

static void add_to_others(struct tracebacks *tracebacks, const struct known_traceback *known)
{
	tracebacks->others = churn_sum(&tracebacks->others, &known->retired);
	tracebacks->summed_nr++;
}

/* Closes the holes in both arrays: the places lie in the order of the tracebacks. */
static void move_up(struct tracebacks *tracebacks, const bool *stays)
{
	uint32_t to = 0, place_to = 0;

	for (size_t i = 0; i < tracebacks->traceback_nr; i++) {
		struct known_traceback known = tracebacks->traceback[i];

		if (!stays[i]) {
			add_to_others(tracebacks, &known);
			continue;
		}
		memmove(tracebacks->place + place_to, tracebacks->place + known.first,
			known.nframe * sizeof(*tracebacks->place));
		known.first = place_to;
		place_to += known.nframe;
		tracebacks->traceback[to++] = known;
	}
	tracebacks->traceback_nr = to;
	tracebacks->place_nr = place_to;
}

#define GIVE_BACK(target, item) \
	do { \
		size_t nr_ = (target)->item##_nr ?: 1; \
		void *less_ = realloc((target)->item, nr_ * sizeof(*(target)->item)); \
		if (less_) { \
			(target)->item = less_; \
			(target)->item##_alloc = nr_; \
		} \
	} while (0)

int forget_retired(struct tracebacks *tracebacks, const struct image_blocks *blocks, size_t most)
{
	struct idmap ids = {};
	bool *stays;
	int err;

	if (count_not_held(tracebacks) <= most)
		return 0;
	stays = calloc(tracebacks->traceback_nr, sizeof(*stays));
	err = stays ? choose_retired(tracebacks, blocks, most, stays) : -ENOMEM;
	err = err ?: make_traceback_ids(tracebacks, stays, &ids);
	if (!err) {
		move_up(tracebacks, stays);
		idmap_release(&tracebacks->ids);
		tracebacks->ids = ids;
		GIVE_BACK(tracebacks, place);
		GIVE_BACK(tracebacks, traceback);
	} else {
		idmap_release(&ids);
	}
	free(stays);
	return err > 0 ? 0 : err;
}

bool has_many_unused_tracebacks(const struct tracebacks *tracebacks, const struct image_blocks *blocks)
{
	size_t held = tracebacks->traceback_nr - count_not_held(tracebacks);

	return held > RETIRED_MOST + (blocks ? blocks->nr : 0);
}

/* ---- traceback versions ---- */

#define VERSIONS_MAX 4096
#define VERSIONS_OF_ONE 255

struct version_time {
	uint64_t from_ns, as_of_ns;
};

static int add_version(struct tracebacks *tracebacks, const struct known_traceback *known)
{
	return array_push(tracebacks, traceback, *known) ?:
	       idmap_add(&tracebacks->ids, hash_number(known->id), tracebacks->traceback_nr - 1);
}

static int resolve_version(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
			   const struct traceback *traceback, uint64_t time_ns)
{
	struct known_traceback known;
	int err = resolve_at(tracebacks, mappings, time_ns, traceback, &known);

	known.id = id;
	return err ?: add_version(tracebacks, &known);
}

static bool is_place_equal(const struct code_place *x, const struct code_place *y)
{
	return x->object == y->object && x->offset == y->offset && x->is_guessed == y->is_guessed;
}

static bool are_places_equal(const struct tracebacks *tracebacks, const struct known_traceback *a,
			     const struct known_traceback *b)
{
	bool is = a->nframe == b->nframe && a->flags == b->flags;

	for (uint32_t i = 0; i < a->nframe && is; i++)
		is = is_place_equal(&tracebacks->place[a->first + i], &tracebacks->place[b->first + i]);
	return is;
}

static uint64_t version_id(uint64_t id, uint64_t time_ns)
{
	return hash_bytes(&time_ns, sizeof(time_ns), id) ?: 1;
}

/* Allocations that the map had counted before belong to the only version so far. */
static void settle_first_version(struct known_traceback *first)
{
	if (first->next_id)
		return;
	first->retired = churn_sum(&first->retired, &first->counted);
	first->churn = first->retired;
}

/* Adds an unplaced version behind the last one, and makes it the last. */
static int add_unplaced(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
			const struct traceback *traceback, uint64_t time_ns, struct known_traceback *last)
{
	uint64_t unplaced_id = version_id(~id, time_ns);
	size_t last_at = last - tracebacks->traceback;
	int err = resolve_version(tracebacks, mappings, unplaced_id, traceback, HISTORY_ANY);
	struct known_traceback *first = tracebacks_find(tracebacks, id);

	if (err)
		return err;
	settle_first_version(first);
	first->unplaced_id = unplaced_id;
	tracebacks->ambiguous_nr += !first->is_ambiguous;
	first->is_ambiguous = true;
	tracebacks->traceback[last_at].until_ns = time_ns;
	tracebacks->traceback[last_at].next_id = unplaced_id;
	tracebacks->traceback[tracebacks->traceback_nr - 1].until_ns = 0;
	return 0;
}

static struct known_traceback *last_version(const struct tracebacks *tracebacks, uint64_t id)
{
	return tracebacks_find_born(tracebacks, id, UINT64_MAX - 1);
}

/* The last version of too many is unplaced, for all times to come: a frame has a name there while its code has not changed. */
static void unplace_changed(struct tracebacks *tracebacks, struct known_traceback *last, const struct known_traceback *new)
{
	for (uint32_t i = 0; i < last->nframe; i++)
		if (i >= new->nframe || !is_place_equal(&tracebacks->place[last->first + i], &tracebacks->place[new->first + i])) {
			tracebacks->place[last->first + i].object = OBJECT_GONE;
			last->has_unsure = true;
		}
}

static int change_last_version(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
			       const struct traceback *traceback)
{
	struct known_traceback new;
	int err = resolve_at(tracebacks, mappings, HISTORY_ANY, traceback, &new);

	if (err)
		return err;
	unplace_changed(tracebacks, last_version(tracebacks, id), &new);
	tracebacks->place_nr = new.first;
	return 0;
}

/* Adds the version from a time on, if it differs from the one before. as_of: that time, or HISTORY_ANY. */
static int add_version_at(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
			  const struct traceback *traceback, const struct version_time *time)
{
	struct known_traceback *last = last_version(tracebacks, id), new;
	int err = resolve_at(tracebacks, mappings, time->as_of_ns, traceback, &new);
	uint64_t new_id = version_id(id, time->from_ns);

	if (err)
		return err;
	tracebacks->place_nr = new.first;
	if (are_places_equal(tracebacks, last, &new))
		return 0;
	err = add_unplaced(tracebacks, mappings, id, traceback, time->from_ns, last);
	if (err)
		return err;
	if (++tracebacks_find(tracebacks, id)->version_nr == VERSIONS_OF_ONE) {
		tracebacks->traceback[tracebacks->traceback_nr - 1].until_ns = UINT64_MAX;
		return 0;
	}
	tracebacks->version_nr++;
	tracebacks->traceback[tracebacks->traceback_nr - 1].next_id = new_id;
	return resolve_version(tracebacks, mappings, new_id, traceback, time->as_of_ns);
}

/*
 * Adds a version for each time, up to VERSIONS_OF_ONE of a traceback. If there are more than VERSIONS_MAX of a target in
 * a pass, the time between the first and the last change is unsure.
 */
static int add_versions(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
			const struct traceback *traceback, const struct history_times *times)
{
	bool is_much = times->time_nr > 2 && tracebacks->version_nr + times->time_nr > VERSIONS_MAX;
	int err = 0;

	for (size_t i = 0; i < times->time_nr && !err; i++) {
		const struct version_time time = { times->time[i], is_much && !i ? HISTORY_ANY : times->time[i] };

		if (tracebacks_find(tracebacks, id)->version_nr == VERSIONS_OF_ONE)
			return change_last_version(tracebacks, mappings, id, traceback);
		if ((i && times->time[i] == times->time[i - 1]) || (is_much && i && i < times->time_nr - 1))
			continue;
		err = add_version_at(tracebacks, mappings, id, traceback, &time);
	}
	return err;
}

static int find_times(const struct mappings *mappings, const struct traceback *traceback, uint64_t after_ns,
		      struct history_times *times)
{
	int err = 0;

	for (uint32_t i = 0; i < traceback->nframe && !err; i++)
		err = history_times(mappings, traceback->pc[i], after_ns, times);
	qsort(times->time, times->time_nr, sizeof(*times->time), array_by_number);
	return err;
}

int versions_resolve(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
		     const struct traceback *traceback)
{
	struct known_traceback *known = tracebacks_find(tracebacks, id);
	uint64_t after_ns = known ? known->whole_ns : 0;
	struct history_times times = {};
	int err = 0;

	if (known && after_ns >= mappings->changed_ns)
		return 0;
	if (mappings->past_nr)
		err = find_times(mappings, traceback, after_ns, &times);
	if (!err && !known)
		err = resolve_version(tracebacks, mappings, id, traceback,
				      times.time_nr ? times.time[0] - 1 : HISTORY_NOW);
	err = err ?: add_versions(tracebacks, mappings, id, traceback, &times);
	if (!err)
		tracebacks_find(tracebacks, id)->whole_ns =
			mappings->told_ns > mappings->changed_ns ? mappings->told_ns : mappings->changed_ns;
	free(times.time);
	return err;
}

int versions_resolve_then(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id,
			  const struct traceback *traceback, uint64_t time_ns)
{
	int err = tracebacks_find(tracebacks, id) ? 0 : resolve_version(tracebacks, mappings, id, traceback, time_ns);

	if (!err)
		tracebacks_find(tracebacks, id)->whole_ns = UINT64_MAX;
	return err;
}

int versions_unplace(struct tracebacks *tracebacks, const struct mappings *mappings, uint64_t id, const struct traceback *traceback,
		     uint64_t from_ns)
{
	struct known_traceback *last = tracebacks_find(tracebacks, id);
	int err = last->next_id ? 1 : add_unplaced(tracebacks, mappings, id, traceback, from_ns, last);

	if (err)
		return err > 0 ? 0 : err;
	last = &tracebacks->traceback[tracebacks->traceback_nr - 1];
	last->until_ns = UINT64_MAX;
	if (last->nframe)
		tracebacks->place[last->first + last->nframe - 1].object = OBJECT_GONE;
	last->has_unsure = true;
	return 0;
}

/* ---- allocations ---- */

static struct churn churn_since(const struct churn *now, const struct churn *before)
{
	return (struct churn){
		.allocations = now->allocations - before->allocations,
		.allocated_bytes = now->allocated_bytes - before->allocated_bytes,
		.temporary = now->temporary - before->temporary,
		.temporary_bytes = now->temporary_bytes - before->temporary_bytes,
	};
}

static void count_new(struct tracebacks *tracebacks, struct known_traceback *known, const struct churn *counted)
{
	const struct churn new = churn_since(counted, &known->counted);
	struct known_traceback *to = known->is_ambiguous ? tracebacks_find(tracebacks, known->unplaced_id) :
							   last_version(tracebacks, known->id);

	to->retired = churn_sum(&to->retired, &new);
	to->churn = to->retired;
}

void versions_count(struct tracebacks *tracebacks, struct known_traceback *known, const struct churn *counted)
{
	if (known->next_id)
		count_new(tracebacks, known, counted);
	else
		known->churn = churn_sum(&known->retired, counted);
	known->counted = *counted;
}

void versions_retire(struct tracebacks *tracebacks, struct known_traceback *known, const struct churn *counted)
{
	if (known->next_id)
		count_new(tracebacks, known, counted);
	else
		known->retired = churn_sum(&known->retired, counted);
	known->counted = (struct churn){};
}

static uint64_t at_most(double value, uint64_t most)
{
	return value < most ? (uint64_t)llround(value) : most;
}

static void credit_block(struct tracebacks *tracebacks, const struct drained_block *block, double weight)
{
	struct known_traceback *known = tracebacks_find(tracebacks, block->traceback), *from, *to;
	uint64_t blocks, bytes;

	if (!known || !known->is_ambiguous)
		return;
	from = tracebacks_find(tracebacks, known->unplaced_id);
	to = tracebacks_find_born(tracebacks, block->traceback, block->birth_ns);
	blocks = at_most(weight, from->retired.allocations);
	bytes = at_most(weight * block->size, from->retired.allocated_bytes);
	from->retired.allocations -= blocks;
	from->retired.allocated_bytes -= bytes;
	to->retired.allocations += blocks;
	to->retired.allocated_bytes += bytes;
	from->churn = from->retired;
	to->churn = to->retired;
}

static void credit_chunk(struct tracebacks *tracebacks, const struct block_chunk *chunk, const uint64_t *sample_bytes)
{
	for (size_t i = 0; i < chunk->nr; i++) {
		const struct drained_block *block = &chunk->block[i];
		double weight;

		if (block->birth_ns < tracebacks->credited_ns)
			continue;
		weight = chunk->weight && chunk->weight[i] ?
				 weight_of_told_block(block->size, chunk->weight[i]) :
				 weight_of_block(block->size, block->layer, sample_bytes[block->rate]);
		credit_block(tracebacks, block, weight);
	}
}

void versions_credit(struct tracebacks *tracebacks, const struct image_blocks *blocks, const uint64_t *sample_bytes,
		     uint64_t now_ns)
{
	const struct block_chunk *chunk = tracebacks->ambiguous_nr && blocks ? blocks->chunk : NULL;

	for (; chunk; chunk = chunk->next)
		credit_chunk(tracebacks, chunk, sample_bytes);
	for (size_t i = 0; tracebacks->ambiguous_nr && i < tracebacks->traceback_nr; i++)
		tracebacks->traceback[i].is_ambiguous = false;
	tracebacks->ambiguous_nr = tracebacks->version_nr = 0;
	tracebacks->credited_ns = now_ns;
}
