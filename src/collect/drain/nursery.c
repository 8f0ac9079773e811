// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/nursery.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "collect/drain/block_set.h"

int nursery_open(struct nursery *nursery, const struct bpf_map *map)
{
	size_t nr = bpf_map__max_entries(map);
	void *place;

	if (nr == 1)
		return 0;
	place = mmap(NULL, nr * sizeof(*nursery->place), PROT_READ | PROT_WRITE, MAP_SHARED,
		     bpf_map__fd(map), 0);
	if (place == MAP_FAILED)
		return -errno;
	*nursery = (struct nursery){ place, nr - 1 };
	return 0;
}

void nursery_close(struct nursery *nursery)
{
	if (nursery->place)
		munmap(nursery->place, (nursery->mask + 1) * sizeof(*nursery->place));
	*nursery = (struct nursery){};
}

static uint64_t state_of(const struct nursery_place *place)
{
	return __atomic_load_n(&place->state, __ATOMIC_ACQUIRE);
}

#define WAIT_NS 20000
#define WAITS_MAX 10000 /* about a second, as sleeps take longer: the thread that holds the place is not running */

/* Waits until no program is changing the place, and returns its state; NURSERY_BUSY: the place stays busy. */
static uint64_t wait_until_settled(const struct nursery_place *place)
{
	const struct timespec moment = { .tv_nsec = WAIT_NS };
	uint64_t state = state_of(place);

	for (int i = 0; i < WAITS_MAX && NURSERY_IS(state) == NURSERY_BUSY; i++) {
		nanosleep(&moment, NULL);
		state = state_of(place);
	}
	return state;
}

/* 1: the place has a block, 0: it is empty, or -EBUSY. */
static int read_place(const struct nursery_place *place, struct pending_block *ret)
{
	uint64_t state = wait_until_settled(place), after;

	while (NURSERY_IS(state) == NURSERY_FULL) {
		*ret = (struct pending_block){ place->key, nursery_block(place) };
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = wait_until_settled(place);
		if (after == state)
			return 1;
		state = after;
	}
	return NURSERY_IS(state) == NURSERY_BUSY ? -EBUSY : 0;
}

int nursery_read(const struct nursery *nursery, uint64_t last, struct drained_blocks *to)
{
	struct pending_block found;
	int has = 0;

	for (size_t i = 0; nursery->place && i <= nursery->mask && has >= 0; i++) {
		has = read_place(&nursery->place[i], &found);
		if (has > 0 && found.block.epoch <= last)
			has = drained_blocks_add(to, &found.key, &found.block);
	}
	return has < 0 ? has : 0;
}

static struct nursery_place *place_of(const struct nursery *nursery, const struct block_key *key)
{
	return nursery->place && block_key_layer(key) != LAYER_MAPPING ?
		       &nursery->place[nursery_slot(key, nursery->mask)] : NULL;
}

bool nursery_find(const struct nursery *nursery, const struct block_key *key, struct block *ret)
{
	const struct nursery_place *place = place_of(nursery, key);
	struct pending_block found;

	if (!place || read_place(place, &found) <= 0 || memcmp(&found.key, key, sizeof(*key)))
		return false;
	*ret = found.block;
	return true;
}

/*
 * Once the image of a block is gone, only the loader changes the block, except that a program may move it to the
 * map.
 */
static void empty_place(struct nursery_place *place, uint64_t state)
{
	uint64_t busy = NURSERY_STATE(state, NURSERY_BUSY);

	if (__atomic_compare_exchange_n(&place->state, &state, busy, false, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		__atomic_store_n(&place->state, NURSERY_STATE(busy + NURSERY_CHANGE, NURSERY_EMPTY),
				 __ATOMIC_SEQ_CST);
}

void nursery_sweep(const struct nursery *nursery, nursery_is_gone_fn is_gone, const void *what)
{
	for (size_t i = 0; nursery->place && i <= nursery->mask; i++) {
		struct nursery_place *place = &nursery->place[i];
		uint64_t state = state_of(place);

		if (NURSERY_IS(state) == NURSERY_FULL && is_gone(what, block_key_image(&place->key)))
			empty_place(place, state);
	}
}

void nursery_forget(const struct nursery *nursery, const struct block_key *key, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct nursery_place *place = place_of(nursery, &key[i]);

		if (place)
			__atomic_fetch_sub(&place->mapped, 1, __ATOMIC_SEQ_CST);
	}
}
