// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/go_join.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/build/build_metadata.h"
#include "collect/sources/block_sources.h"
#include "shared/unwind_types.h"

#define BUCKET_BITS 20
#define ADDRESS_OF_SAMPLE (UINT64_C(1) << 63)
#define SAMPLES_SHIFT 22
#define SAMPLES_MOST (1u << SAMPLES_SHIFT)
#define SAMPLES_OF_ONE (1u << 20) /* where many processes are recorded: half a TiB of heap at Go's own rate */

_Static_assert(GO_BUCKETS_MAX == 1u << BUCKET_BITS, "the number of a bucket is part of ids");

/* How many blocks of the size one sample stands for. A program that samples each block has the rate 1. */
static double weight_of_go(const struct go_heap *heap, uint64_t size)
{
	uint64_t rate = heap->rate ?: RATE_ASSUMED;

	return rate > 1 ? 1 / -expm1(-(double)size / rate) : 1;
}

static uint64_t rounded(double number)
{
	return number < 0x1p63 ? (uint64_t)(number + 0.5) : UINT64_C(1) << 63;
}

struct joined_go {
	struct collector *collector;
	struct target *target;
	uint64_t image, room;
	uint64_t allocations, frees, allocated_bytes, freed_bytes;
};

/*
 * Whether it is all but certain (95 %) that collections free at most one in 20 samples of the stack. Of its samples since the
 * program's start, of all sizes, two collections must have looked at 60, and at more where some were freed: what is allocated
 * while one marks survives it.
 */
static bool hardly_frees(const struct numbered_bucket *stack)
{
	double freed = stack->published.frees;

	return 20 * (freed + 2 * sqrt(freed) + 3) <= stack->allocations_before;
}

/*
 * How many live samples are no garbage: those that two collections have left, the second of which has not begun before they were
 * allocated. Others may be garbage, unless their stack hardly frees any.
 */
static uint64_t kept_of(const struct go_heap *heap, const struct go_bucket *bucket, uint32_t number)
{
	const struct numbered_bucket *known = &heap->bucket[number];

	if (hardly_frees(&heap->bucket[known->first]))
		return live_of(&bucket->now);
	return known->kept < known->kept_before ? known->kept : known->kept_before;
}

/* Garbage, if it is any, counts as born when the snapshot was taken. So a block is only as old as it is known to be kept. */
static int join_samples(struct joined_go *joined, const struct go_bucket *bucket, uint32_t number)
{
	struct go_heap *heap = joined->target->go.heap;
	const struct go_births *births = &heap->bucket[number].births;
	uint64_t live = live_of(&bucket->now), kept = kept_of(heap, bucket, number), run = 0;
	struct block block = {
		.size = bucket->size,
		.traceback = bucket->nframe ? TRACEBACK_OF_GO | joined->image << BUCKET_BITS | number : 0,
		.domain = DOMAIN_GO,
		.weight = rounded(bucket->size * weight_of_go(heap, bucket->size)),
	};
	int err = 0;

	if (live && !births->run_nr) /* there was no memory for it, or for its number */
		live = 0;
	if (live > joined->room)
		heap->dropped += live - joined->room;
	live = live < joined->room ? live : joined->room;
	joined->room -= live;
	for (uint64_t i = 0; i < live && !err; i++) {
		const struct block_key key = block_key_of(ADDRESS_OF_SAMPLE | (uint64_t)number << SAMPLES_SHIFT | i, joined->image, LAYER_HEAP);

		while (run + 1 < births->run_nr && births->run[run].upto <= i)
			run++;
		block.birth_ns = i < kept ? births->run[run].birth_ns : heap->read_ns;
		err = drained_blocks_add(&joined->collector->pass.drain.blocks, &key, &block);
	}
	return err;
}

static bool is_wanted_size(const struct collector_options *options, uint64_t size)
{
	return size >= options->min_size && (!options->max_size || size <= options->max_size);
}

static void add_to_sums(struct joined_go *joined, const struct go_bucket *bucket)
{
	double weight = weight_of_go(joined->target->go.heap, bucket->size);

	joined->allocations += rounded(bucket->now.allocations * weight);
	joined->frees += rounded(bucket->now.frees * weight);
	joined->allocated_bytes += rounded(bucket->now.allocations * weight * bucket->size);
	joined->freed_bytes += rounded(bucket->now.frees * weight * bucket->size);
}

/* The sums are of the whole life of the program. Peaks between readings are not known. */
static void join_sums(const struct joined_go *joined)
{
	uint64_t *counter = joined->target->drained.account.counter;

	counter[COUNTER_allocations] += joined->allocations;
	counter[COUNTER_frees] += joined->frees;
	counter[COUNTER_allocated_bytes] += joined->allocated_bytes;
	counter[COUNTER_freed_bytes] += joined->freed_bytes;
	counter[COUNTER_current_blocks] += joined->allocations - joined->frees;
	counter[COUNTER_current_bytes] += joined->allocated_bytes - joined->freed_bytes;
	counter[COUNTER_peak_bytes] = counter[COUNTER_peak_blocks] = 0;
	joined->target->drained.is_of_source = true;
}

static uint64_t samples_most(const struct collector_options *options)
{
	uint64_t most = options->system_wide ? SAMPLES_OF_ONE : SAMPLES_MOST;

	return options->max_blocks && options->max_blocks < most ? options->max_blocks : most;
}

int join_go_blocks(struct collector *collector, struct target *target)
{
	const struct go_heap *heap = target->go.heap;
	struct joined_go joined = {
		.collector = collector, .target = target, .image = target->drained.account.image,
		.room = samples_most(&collector->options),
	};
	int err = 0;

	target->go.heap->dropped = 0;
	for (size_t i = 0; i < heap->profile.bucket_nr && !err; i++) {
		const struct go_bucket *bucket = &heap->profile.bucket[i];
		uint32_t number = number_of_bucket(heap, bucket->address);

		add_to_sums(&joined, bucket);
		if (number != IDMAP_NONE && is_wanted_size(&collector->options, bucket->size))
			err = join_samples(&joined, bucket, number);
	}
	join_sums(&joined);
	return err;
}

static int join_go_traceback(struct collector *collector, const struct target *target, const struct go_bucket *bucket, uint32_t number)
{
	const struct go_heap *heap = target->go.heap;
	double weight = weight_of_go(heap, bucket->size);
	uint64_t image = target->drained.account.image, id = TRACEBACK_OF_GO | image << BUCKET_BITS | number;
	uint32_t limit = collector->options.traceback_limit;
	struct traceback traceback = {
		.churn = { .allocations = rounded(bucket->now.allocations * weight),
			   .allocated_bytes = rounded(bucket->now.allocations * weight * bucket->size) },
		.image = image,
		.by_tables = true | TRACEBACK_IS_LOGICAL,
		.end = UNWIND_ROOT,
		.total_nframe = bucket->nframe,
		.nframe = bucket->nframe < limit ? bucket->nframe : limit,
	};

	memcpy(traceback.pc, heap->profile.pc + bucket->first, traceback.nframe * sizeof(*traceback.pc));
	return map_copy_add(&collector->pass.drain.tracebacks, &id, &traceback);
}

int add_go_tracebacks(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		const struct target *target = collector->targets.target[i];
		const struct go_profile *profile = target->go.is_used ? &target->go.heap->profile : NULL;

		for (size_t k = 0; profile && k < profile->bucket_nr && !err; k++) {
			uint32_t number = number_of_bucket(target->go.heap, profile->bucket[k].address);

			if (number != IDMAP_NONE && profile->bucket[k].nframe)
				err = join_go_traceback(collector, target, &profile->bucket[k], number);
		}
	}
	return err;
}
