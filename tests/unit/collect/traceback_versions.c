// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A traceback whose addresses mean other code from a time on: each block has the version of its birth, and sums stay. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "collect/build/resolve_tracebacks.h"
#include "collect/build/traceback_versions.h"
#include "process/objects.h"
#include "collect/target/target.h"
#include "mappings_fixture.h"

#define IMAGE 7
#define ID 77
#define PLUGIN 0x3000UL
#define PROGRAM 0x8000UL

static const uint64_t every_block[SAMPLE_RATES];

static struct traceback traceback_with(uint64_t allocations, uint64_t bytes)
{
	return (struct traceback){
		.churn = { allocations, bytes, 0, 0 },
		.image = IMAGE, .nframe = 2, .total_nframe = 2, .by_tables = 1, .pc = { PLUGIN + 8, PROGRAM + 8 },
	};
}

static struct tracebacks tracebacks;

/* A drain at a time, with blocks born at these times. */
static void drain(uint64_t now_ns, uint64_t allocations, const uint64_t *birth_ns)
{
	const struct traceback traceback = traceback_with(allocations, 10 * allocations);
	struct drained_blocks blocks = {};

	for (uint64_t i = 0; birth_ns[i]; i++) {
		struct block_key key = block_key_of(16 * (i + 1), IMAGE, LAYER_HEAP);
		struct block block = { .size = 10, .traceback = ID, .birth_ns = birth_ns[i] };

		cr_assert_eq(drained_blocks_add(&blocks, &key, &block), 0);
	}
	fixture->mappings.told_ns = now_ns;
	resolve_begin(&tracebacks);
	resolve_held(&tracebacks, ID);
	cr_assert_eq(forget_retired(&tracebacks, drained_blocks_of(&blocks, IMAGE), 0), 0);
	cr_assert_eq(resolve_drained(&tracebacks, &fixture->mappings, ID, &traceback), 0);
	versions_credit(&tracebacks, drained_blocks_of(&blocks, IMAGE), every_block, now_ns);
	mappings_end_pass(&fixture->mappings);
	drained_blocks_release(&blocks);
}

/* The offset of the plugin's frame in its file for a block of that birth. */
static void expect_born(uint64_t birth_ns, uint64_t offset, uint64_t allocations)
{
	const struct known_traceback *known = tracebacks_find_born(&tracebacks, ID, birth_ns);

	cr_assert(known);
	cr_assert_eq(known->nframe, 2);
	cr_expect_eq(tracebacks.place[known->first].offset, offset + 8, "born at %llu: 0x%llx",
		     (unsigned long long)birth_ns, (unsigned long long)tracebacks.place[known->first].offset);
	cr_expect_eq(tracebacks.place[known->first + 1].offset, PROGRAM + 8);
	cr_expect_eq(known->churn.allocations, allocations, "born at %llu: %llu", (unsigned long long)birth_ns,
		     (unsigned long long)known->churn.allocations);
	cr_expect_eq(known->churn.allocated_bytes, 10 * allocations);
}

static uint64_t all_allocations(void)
{
	struct churn sum = tracebacks.others;

	for (size_t i = 0; i < tracebacks.traceback_nr; i++)
		sum = churn_sum(&sum, &tracebacks.traceback[i].churn);
	return sum.allocations;
}

static void map_plugin(uint64_t time_ns, uint64_t offset)
{
	add_mapping_at(time_ns, PLUGIN, PLUGIN + 0x1000, offset);
}

static void begin(void)
{
	new_fixture();
	add_mapping_at(5, PROGRAM, PROGRAM + 0x1000, PROGRAM);
	map_plugin(10, 0x10000);
}

static void end(void)
{
	tracebacks_release(&tracebacks);
	free_fixture();
}

TestSuite(traceback_versions, .init = begin, .fini = end);

Test(traceback_versions, are_of_the_code_at_the_birth_of_a_block)
{
	map_plugin(20, 0x20000);
	map_plugin(30, 0x30000);
	drain(40, 6, (uint64_t[]){ 15, 20, 29, 30, 31, 39, 0 });
	expect_born(15, 0x10000, 1);
	expect_born(29, 0x20000, 2);
	expect_born(30, 0x30000, 3);
	cr_expect_eq(all_allocations(), 6);
}

Test(traceback_versions, of_later_passes_are_added)
{
	drain(18, 9, (uint64_t[]){ 15, 0 });
	cr_expect_eq(tracebacks.traceback_nr, 1, "nothing has changed");
	map_plugin(20, 0x20000);
	drain(28, 13, (uint64_t[]){ 15, 19, 25, 26, 0 });
	expect_born(15, 0x10000, 10);
	expect_born(25, 0x20000, 2);
	cr_expect_eq(all_allocations(), 13, "the code that allocated the freed one is not known");
	drain(29, 20, (uint64_t[]){ 15, 25, 0 });
	expect_born(25, 0x20000, 9);
	map_plugin(30, 0x10000);
	drain(40, 21, (uint64_t[]){ 15, 35, 0 });
	expect_born(15, 0x10000, 10);
	expect_born(35, 0x10000, 1);
	expect_born(25, 0x20000, 9);
	cr_expect_eq(all_allocations(), 21);
}

/* The freed blocks of two versions have no name where the code changed, and the program's own frame keeps it. */
Test(traceback_versions, give_no_name_to_what_is_not_known)
{
	const struct known_traceback *unplaced;

	map_plugin(20, 0x20000);
	drain(28, 100, (uint64_t[]){ 25, 0 });
	unplaced = tracebacks_find(&tracebacks, tracebacks_find(&tracebacks, ID)->unplaced_id);
	cr_assert(unplaced);
	cr_expect_eq(unplaced->churn.allocations, 99);
	cr_expect(unplaced->has_unsure);
	cr_expect_eq(tracebacks.place[unplaced->first].object, OBJECT_GONE);
	cr_expect_eq(tracebacks.place[unplaced->first + 1].offset, PROGRAM + 8);
}

Test(traceback_versions, are_forgotten_together)
{
	const struct traceback traceback = traceback_with(8, 80);

	map_plugin(20, 0x20000);
	drain(28, 5, (uint64_t[]){ 15, 25, 0 });
	cr_assert_eq(resolve_retired(&tracebacks, &fixture->mappings, ID, &traceback), 0);
	resolve_begin(&tracebacks);
	cr_assert_eq(forget_retired(&tracebacks, NULL, 0), 0);
	cr_expect_eq(tracebacks.traceback_nr, 0);
	cr_expect_eq(all_allocations(), 8);
}

/* The library was unloaded so long ago that its file is forgotten. */
Test(traceback_versions, of_forgotten_code_stay)
{
	const char *program = "8000-9000 r-xp 00008000 00:00 0 [vdso]\n";

	drain(18, 1, (uint64_t[]){ 15, 0 });
	for (uint64_t i = 0; i < 3; i++) {
		fixture->time_ns = 20 + i;
		read_maps(program);
		drain(30 + i, 1, (uint64_t[]){ 15, 0 });
	}
	cr_assert_null(mappings_find(&fixture->mappings, PLUGIN));
	map_plugin(60, 0x20000);
	drain(70, 2, (uint64_t[]){ 15, 65, 0 });
	expect_born(15, 0x10000, 1);
	expect_born(65, 0x20000, 1);
}

/* A process that changes its code all the time must not make the recorder slow. */
Test(traceback_versions, are_limited)
{
	for (uint64_t i = 1; i < 1000; i++)
		map_plugin(10 + i, 0x10000 * (1 + i % 3));
	tracebacks.version_nr = 4000;
	drain(2000, 3, (uint64_t[]){ 10, 500, 1500, 0 });
	cr_expect_leq(tracebacks.traceback_nr, 5);
	cr_expect(tracebacks_find_born(&tracebacks, ID, 500)->has_unsure);
	expect_born(1500, 0x10000, 1);
}

/* Other code comes to the plugin's address in each pass, for days. */
Test(traceback_versions, are_limited_over_all_passes)
{
	const struct known_traceback *last;
	size_t traceback_nr = 0, place_nr = 0;

	for (uint64_t i = 1; i < 2000; i++) {
		map_plugin(10 + 10 * i, 0x10000 * (1 + i % 3));
		drain(18 + 10 * i, i, (uint64_t[]){ 15, 15 + 10 * i, 0 });
		if (i == 1000) {
			traceback_nr = tracebacks.traceback_nr;
			place_nr = tracebacks.place_nr;
		}
	}
	cr_expect_leq(traceback_nr, 520);
	cr_expect_eq(tracebacks.traceback_nr, traceback_nr);
	cr_expect_eq(tracebacks.place_nr, place_nr);
	expect_born(15, 0x10000, 1);
	last = tracebacks_find_born(&tracebacks, ID, 15000);
	cr_expect_eq(last->until_ns, UINT64_MAX);
	cr_expect(last->has_unsure);
	cr_expect_eq(tracebacks.place[last->first].object, OBJECT_GONE);
	cr_expect_eq(tracebacks.place[last->first + 1].offset, PROGRAM + 8, "the program's own frame keeps its name");
	cr_expect_eq(all_allocations(), 1999);
	add_mapping_at(30000, PROGRAM, PROGRAM + 0x1000, 0x70000);
	drain(30010, 2000, (uint64_t[]){ 15, 30005, 0 });
	last = tracebacks_find_born(&tracebacks, ID, 30005);
	cr_expect_eq(tracebacks.place[last->first + 1].object, OBJECT_GONE, "until other code is there, too");
	cr_expect_eq(all_allocations(), 2000);
}

/* ---- forget ---- */

/* Tracebacks that come and go forever: the memory for them is bounded, and the sums of their allocations are exact. */

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

static void drain_model(struct model *model)
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
		drain_model(&model);
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
