// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_source.h"

#include <errno.h>

#include "base/array.h"
#include "collect/process/proc.h"
#include "collect/sources/block_sources.h"

#define FIRST_TRIES 20

static bool python_is_checkable(const struct collector *collector, const struct target *target)
{
	const struct collector_options *options = &collector->options;

	bool has_all_sizes = !options->min_size &&
			     (!options->max_size || (options->python_pools && options->max_size >= COLLECTOR_PYTHON_SMALL_MAX));

	return target->python.is_used && target->python.memory && !target->life.has_ended && !options->sample_bytes &&
	       has_all_sizes && !options->max_overhead;
}

/* Grows with each call that is seen. */
static uint64_t calls_seen(const struct collector *collector, const struct target *target)
{
	static const enum counter counters[] = {
		COUNTER_allocations, COUNTER_frees, COUNTER_unknown_frees, COUNTER_inherited_frees, COUNTER_nested_calls,
		COUNTER_dropped_frees,
	};
	const struct process *books = &collector->targets.books.process[target->slot % PROCESSES_MAX];
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		sum += __atomic_load_n(&books->counter[counters[i]], __ATOMIC_ACQUIRE);
	return sum;
}

/* Takes the blocks of the books out of the live ones; counts those that are not live, or not large enough. */
static void take_recorded(struct live_pools *live, const struct image_blocks *blocks, uint64_t *ret_gone)
{
	for (const struct block_chunk *chunk = blocks ? blocks->chunk : NULL; chunk; chunk = chunk->next)
		for (size_t i = 0; i < chunk->nr; i++) {
			const struct drained_block *block = &chunk->block[i];
			enum live_state state;

			if (block->domain != DOMAIN_PYTHON || block->size - 1 >= COLLECTOR_PYTHON_SMALL_MAX)
				continue;
			state = live_pools_take(live, block->address, block->size);
			*ret_gone += state == LIVE_NOT || state == LIVE_SMALLER;
		}
}

/*
 * Reads the lists, if nothing has moved since the calls were counted. A thread that runs may be between a probe and what
 * the probed code does then, so all must be asleep. 0, -ENOMEM, or another error: there is no result.
 */
static int read_live_now(struct collector *collector, struct target *target, struct live_pools *ret)
{
	struct python_checked *checked = &target->python.checked;
	bool is_still = calls_seen(collector, target) == checked->calls && proc_is_asleep(target->identity.pid);
	int err = is_still ? 0 : -EAGAIN;

	err = err ?: live_pools_read(&target->python.where, target__read_memory, target, ret);
	if (!err && calls_seen(collector, target) != checked->calls) {
		live_pools_release(ret);
		err = -EAGAIN;
	}
	if (!err && collector->options.python_pools)
		live_pools_unite(ret);
	return err;
}

void python_check_begin(struct collector *collector)
{
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		target->python.checked.is_now = false;
		if (python_is_checkable(collector, target))
			target->python.checked.calls = calls_seen(collector, target);
	}
}

static int check_python_books(struct collector *collector, struct target *target)
{
	struct python_checked *checked = &target->python.checked;
	uint64_t image = target->drained.books.image, gone = 0;
	struct live_pools live;
	int err = read_live_now(collector, target, &live);

	if (err)
		return err == -ENOMEM ? err : 0;
	if (checked->image != image)
		checked->has_older = false; /* the books are others: of another program, or emptied */
	checked->image = image;
	take_recorded(&live, drained_blocks_of(&collector->pass.drain.blocks, image), &gone);
	checked->gone = gone;
	python_checked_note(checked, &live);
	checked->is_now = true;
	return 0;
}

int python_check(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (python_is_checkable(collector, collector->targets.target[i]))
			err = check_python_books(collector, collector->targets.target[i]);
	return err;
}

/* The books may have blocks by now: they are in `older`, too, until the next check. */
int python_check_first(struct collector *collector, struct target *target)
{
	struct python_checked *checked = &target->python.checked;
	struct live_pools live;
	int err = -EAGAIN;

	if (!python_is_checkable(collector, target))
		return 0;
	for (int try = 0; try < FIRST_TRIES && err == -EAGAIN; try++) {
		checked->calls = calls_seen(collector, target);
		err = read_live_now(collector, target, &live);
	}
	if (err)
		return err == -ENOMEM ? err : 0;
	checked->image = target->now.books.image;
	python_checked_note(checked, &live);
	return 0;
}
