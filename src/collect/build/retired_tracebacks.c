// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/retired_tracebacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/build/resolve_tracebacks.h"

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
	size_t nr = 0;

	for (size_t i = 0; i < tracebacks->traceback_nr; i++)
		nr += !tracebacks->traceback[i].is_held;
	return nr;
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
			err = idmap_add(ids, tracebacks->traceback[i].id, to++);
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
	if (!err)
		err = make_traceback_ids(tracebacks, stays, &ids);
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
