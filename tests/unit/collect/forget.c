// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Tracebacks that come and go forever: the memory for them is bounded, and the sums of their allocations are exact. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "collect/build/traceback_versions.h"
#include "collect/process/objects.h"
#include "collect/build/resolve_tracebacks.h"
#include "collect/target/target.h"

#define IMAGE 7
#define FRAMES 5

/* Frame i of traceback id; no other traceback has the same frame. */
static uint64_t pc_of(uint64_t id, uint32_t i)
{
	return id * 16 + i;
}

static struct traceback traceback_of(uint64_t id, uint64_t allocations, uint64_t bytes)
{
	struct traceback traceback = {
		.churn = { allocations, bytes, allocations, bytes },
		.image = IMAGE,
		.nframe = 1 + id % FRAMES,
		.by_tables = 1,
	};

	traceback.total_nframe = traceback.nframe;
	for (uint32_t i = 0; i < traceback.nframe; i++)
		traceback.pc[i] = pc_of(id, i);
	return traceback;
}

static void drained(struct target *target, uint64_t id, uint64_t allocations, uint64_t bytes)
{
	struct traceback traceback = traceback_of(id, allocations, bytes);

	cr_assert_eq(resolve_drained(&target->tracebacks, &target->mappings, id, &traceback), 0);
}

static void taken_out(struct target *target, uint64_t id, uint64_t allocations, uint64_t bytes)
{
	struct traceback traceback = traceback_of(id, allocations, bytes);

	cr_assert_eq(resolve_retired(&target->tracebacks, &target->mappings, id, &traceback), 0);
}

static void add_block(struct drained_blocks *blocks, uint64_t id)
{
	struct block_key key = block_key_of(id, IMAGE, LAYER_HEAP);

	cr_assert_eq(drained_blocks_add(blocks, &key, &(struct block){ .traceback = id }), 0);
}

static struct target *new_target(void)
{
	static struct objects objects;
	struct target *target = target__adopt(0x3fffffff, &(struct process){ .image = IMAGE }, 0, NULL, &objects);

	cr_assert(target);
	return target;
}

/* All that is known is whole, found by its id, and nothing else lies in place[]. */
static struct churn check_known(const struct target *target)
{
	struct churn sum = target->tracebacks.others;
	size_t place_nr = 0;

	for (size_t i = 0; i < target->tracebacks.traceback_nr; i++) {
		const struct known_traceback *known = &target->tracebacks.traceback[i];

		cr_assert_eq(tracebacks_find(&target->tracebacks, known->id), known);
		cr_assert_eq(known->nframe, 1 + known->id % FRAMES);
		cr_assert_eq(known->first, place_nr);
		for (uint32_t at = 0; at < known->nframe; at++)
			cr_assert_eq(target->tracebacks.place[place_nr + at].offset, pc_of(known->id, at));
		place_nr += known->nframe;
		sum = churn_sum(&sum, &known->churn);
	}
	cr_assert_eq(target->tracebacks.place_nr, place_nr);
	return sum;
}

/* Takes a pass with these blocks. All tracebacks that were in the map are resolved. */
static void forget(struct target *target, const struct drained_blocks *blocks)
{
	resolve_begin(&target->tracebacks);
	cr_assert_eq(forget_retired(&target->tracebacks, drained_blocks_of(blocks, IMAGE), RETIRED_MOST), 0);
}

Test(forget, keeps_few_retired_tracebacks)
{
	struct target *target = new_target();
	struct drained_blocks none = {};

	for (uint64_t id = 1; id <= RETIRED_MOST; id++)
		taken_out(target, id, 1, id);
	forget(target, &none);
	cr_expect_eq(target->tracebacks.traceback_nr, RETIRED_MOST);
	cr_expect_eq(target->tracebacks.summed_nr, 0);
	target__free(target);
}

Test(forget, keeps_the_tracebacks_that_allocated_the_most)
{
	struct target *target = new_target();
	struct drained_blocks none = {};

	for (uint64_t id = 1; id <= RETIRED_MOST + 1000; id++)
		taken_out(target, id, 1, id);
	forget(target, &none);
	check_known(target);
	cr_expect_eq(target->tracebacks.traceback_nr, RETIRED_MOST);
	cr_expect_eq(target->tracebacks.summed_nr, 1000);
	cr_expect_eq(target->tracebacks.others.allocated_bytes, 1000 * 1001 / 2);
	cr_expect(!tracebacks_find(&target->tracebacks, 1000) && tracebacks_find(&target->tracebacks, 1001));
	target__free(target);
}

Test(forget, keeps_tracebacks_that_are_live_or_in_the_map)
{
	struct target *target = new_target();
	struct drained_blocks blocks = {};

	for (uint64_t id = 1; id <= RETIRED_MOST + 1000; id++)
		taken_out(target, id, 1, id);
	add_block(&blocks, 1);
	resolve_begin(&target->tracebacks);
	resolve_held(&target->tracebacks, 2);
	cr_assert_eq(forget_retired(&target->tracebacks, drained_blocks_of(&blocks, IMAGE), RETIRED_MOST), 0);
	cr_expect_eq(target->tracebacks.traceback_nr, RETIRED_MOST + 2);
	cr_expect(tracebacks_find(&target->tracebacks, 1) && tracebacks_find(&target->tracebacks, 2));
	cr_expect(!tracebacks_find(&target->tracebacks, 3));
	drained_blocks_release(&blocks);
	target__free(target);
}

Test(forget, leaves_nothing_after_a_new_image)
{
	struct target *target = new_target();
	struct drained_blocks none = {};

	for (uint64_t id = 1; id <= RETIRED_MOST + 10; id++)
		taken_out(target, id, 1, 1);
	forget(target, &none);
	tracebacks_forget(&target->tracebacks);
	cr_expect_eq(target->tracebacks.summed_nr, 0);
	cr_expect_eq(target->tracebacks.others.allocations, 0);
	cr_expect_eq(target->tracebacks.traceback_nr, 0);
	target__free(target);
}

/* ---- a program that makes new tracebacks forever ---- */

#define PASSES 40
#define NEW 6000
#define LIVE 500

struct model {
	struct target *target;
	struct drained_blocks blocks;
	uint64_t allocations, bytes;
	uint64_t live[LIVE];
	uint64_t id; /* the newest */
	unsigned int seed;
};

static uint64_t drawn(struct model *model, uint64_t most)
{
	return rand_r(&model->seed) % most;
}

/* A new traceback or, one time in four, an earlier one, forgotten or not. */
static uint64_t next_id(struct model *model)
{
	return model->id && !drawn(model, 4) ? 1 + drawn(model, model->id) : ++model->id;
}

static void allocate(struct model *model)
{
	uint64_t id = next_id(model), bytes = 1 + drawn(model, 1000);

	taken_out(model->target, id, 1, bytes);
	if (!drawn(model, 10))
		model->live[drawn(model, LIVE)] = id;
	model->allocations++;
	model->bytes += bytes;
}

static void drain(struct model *model)
{
	struct drained_blocks blocks = {};
	struct churn sum;

	for (size_t i = 0; i < LIVE; i++)
		if (model->live[i])
			add_block(&blocks, model->live[i]);
	forget(model->target, &blocks);
	drained(model->target, 1, 0, 0); /* this one is in the map again and again */
	sum = check_known(model->target);
	cr_expect_eq(sum.allocations, model->allocations);
	cr_expect_eq(sum.allocated_bytes, model->bytes);
	cr_expect_eq(sum.temporary, model->allocations);
	cr_expect_eq(sum.temporary_bytes, model->bytes);
	cr_expect_leq(model->target->tracebacks.traceback_nr, RETIRED_MOST + LIVE + 1);
	cr_expect_leq(model->target->tracebacks.place_alloc, FRAMES * (RETIRED_MOST + LIVE + NEW));
	for (size_t i = 0; i < LIVE; i++)
		cr_expect(!model->live[i] || tracebacks_find(&model->target->tracebacks, model->live[i]));
	drained_blocks_release(&blocks);
}

Test(forget, stays_bounded_and_exact_over_many_passes)
{
	struct model model = { .target = new_target(), .seed = 1 };

	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < NEW; i++)
			allocate(&model);
		drain(&model);
	}
	cr_expect_gt(model.target->tracebacks.summed_nr, PASSES * NEW / 2);
	target__free(model.target);
}

/* A recording of many has a bound for all of them. */
Test(forget, keeps_less_for_each_of_many_targets)
{
	cr_expect_eq(retired_most(1), RETIRED_MOST);
	cr_expect_eq(retired_most(8), RETIRED_MOST);
	cr_expect_eq(retired_most(250), RETIRED_ALL / 250);
	cr_expect_eq(retired_most(4096), RETIRED_LEAST);
}
