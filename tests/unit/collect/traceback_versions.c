// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A traceback whose addresses mean other code from a time on: each block has the version of its birth, and sums stay. */
#include <criterion/criterion.h>

#include "collect/build/resolve_tracebacks.h"
#include "collect/build/traceback_versions.h"
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

/* A drain at a time, with blocks born at these times. */
static void drain(struct fixture *fixture, struct tracebacks *tracebacks, uint64_t now_ns, uint64_t allocations,
		  const uint64_t *birth_ns)
{
	const struct traceback traceback = traceback_with(allocations, 10 * allocations);
	struct drained_blocks blocks = {};

	for (uint64_t i = 0; birth_ns[i]; i++) {
		struct block_key key = block_key_of(16 * (i + 1), IMAGE, LAYER_HEAP);
		struct block block = { .size = 10, .traceback = ID, .birth_ns = birth_ns[i] };

		cr_assert_eq(drained_blocks_add(&blocks, &key, &block), 0);
	}
	fixture->mappings.told_ns = now_ns;
	resolve_begin(tracebacks);
	resolve_held(tracebacks, ID);
	cr_assert_eq(forget_retired(tracebacks, drained_blocks_of(&blocks, IMAGE), 0), 0);
	cr_assert_eq(resolve_drained(tracebacks, &fixture->mappings, ID, &traceback), 0);
	versions_credit(tracebacks, drained_blocks_of(&blocks, IMAGE), every_block, now_ns);
	mappings_end_pass(&fixture->mappings);
	drained_blocks_release(&blocks);
}

/* The offset of the plugin's frame in its file for a block of that birth. */
static void expect_born(const struct tracebacks *tracebacks, uint64_t birth_ns, uint64_t offset, uint64_t allocations)
{
	const struct known_traceback *known = tracebacks_find_born(tracebacks, ID, birth_ns);

	cr_assert(known);
	cr_assert_eq(known->nframe, 2);
	cr_expect_eq(tracebacks->place[known->first].offset, offset + 8, "born at %llu: 0x%llx",
		     (unsigned long long)birth_ns, (unsigned long long)tracebacks->place[known->first].offset);
	cr_expect_eq(tracebacks->place[known->first + 1].offset, PROGRAM + 8);
	cr_expect_eq(known->churn.allocations, allocations, "born at %llu: %llu", (unsigned long long)birth_ns,
		     (unsigned long long)known->churn.allocations);
	cr_expect_eq(known->churn.allocated_bytes, 10 * allocations);
}

static uint64_t all_allocations(const struct tracebacks *tracebacks)
{
	struct churn sum = tracebacks->others;

	for (size_t i = 0; i < tracebacks->traceback_nr; i++)
		sum = churn_sum(&sum, &tracebacks->traceback[i].churn);
	return sum.allocations;
}

static void map_plugin(struct fixture *fixture, uint64_t time_ns, uint64_t offset)
{
	add_mapping_at(fixture, time_ns, PLUGIN, PLUGIN + 0x1000, offset);
}

static struct fixture *begin(void)
{
	struct fixture *fixture = new_fixture();

	add_mapping_at(fixture, 5, PROGRAM, PROGRAM + 0x1000, PROGRAM);
	map_plugin(fixture, 10, 0x10000);
	return fixture;
}

static void end(struct fixture *fixture, struct tracebacks *tracebacks)
{
	tracebacks_release(tracebacks);
	free_fixture(fixture);
}

Test(traceback_versions, are_of_the_code_at_the_birth_of_a_block)
{
	struct fixture *fixture = begin();
	struct tracebacks tracebacks = {};

	map_plugin(fixture, 20, 0x20000);
	map_plugin(fixture, 30, 0x30000);
	drain(fixture, &tracebacks, 40, 6, (uint64_t[]){ 15, 20, 29, 30, 31, 39, 0 });
	expect_born(&tracebacks, 15, 0x10000, 1);
	expect_born(&tracebacks, 29, 0x20000, 2);
	expect_born(&tracebacks, 30, 0x30000, 3);
	cr_expect_eq(all_allocations(&tracebacks), 6);
	end(fixture, &tracebacks);
}

Test(traceback_versions, of_later_passes_are_added)
{
	struct fixture *fixture = begin();
	struct tracebacks tracebacks = {};

	drain(fixture, &tracebacks, 18, 9, (uint64_t[]){ 15, 0 });
	cr_expect_eq(tracebacks.traceback_nr, 1, "nothing has changed");
	map_plugin(fixture, 20, 0x20000);
	drain(fixture, &tracebacks, 28, 13, (uint64_t[]){ 15, 19, 25, 26, 0 });
	expect_born(&tracebacks, 15, 0x10000, 10);
	expect_born(&tracebacks, 25, 0x20000, 2);
	cr_expect_eq(all_allocations(&tracebacks), 13, "the code that allocated the freed one is not known");
	drain(fixture, &tracebacks, 29, 20, (uint64_t[]){ 15, 25, 0 });
	expect_born(&tracebacks, 25, 0x20000, 9);
	map_plugin(fixture, 30, 0x10000);
	drain(fixture, &tracebacks, 40, 21, (uint64_t[]){ 15, 35, 0 });
	expect_born(&tracebacks, 15, 0x10000, 10);
	expect_born(&tracebacks, 35, 0x10000, 1);
	expect_born(&tracebacks, 25, 0x20000, 9);
	cr_expect_eq(all_allocations(&tracebacks), 21);
	end(fixture, &tracebacks);
}

/* The freed blocks of two versions have no name where the code changed, and the program's own frame keeps it. */
Test(traceback_versions, give_no_name_to_what_is_not_known)
{
	struct fixture *fixture = begin();
	struct tracebacks tracebacks = {};
	const struct known_traceback *unplaced;

	map_plugin(fixture, 20, 0x20000);
	drain(fixture, &tracebacks, 28, 100, (uint64_t[]){ 25, 0 });
	unplaced = tracebacks_find(&tracebacks, tracebacks_find(&tracebacks, ID)->unplaced_id);
	cr_assert(unplaced);
	cr_expect_eq(unplaced->churn.allocations, 99);
	cr_expect(unplaced->has_unsure);
	cr_expect_eq(tracebacks.place[unplaced->first].object, OBJECT_GONE);
	cr_expect_eq(tracebacks.place[unplaced->first + 1].offset, PROGRAM + 8);
	end(fixture, &tracebacks);
}

Test(traceback_versions, are_forgotten_together)
{
	struct fixture *fixture = begin();
	struct tracebacks tracebacks = {};
	const struct traceback traceback = traceback_with(8, 80);

	map_plugin(fixture, 20, 0x20000);
	drain(fixture, &tracebacks, 28, 5, (uint64_t[]){ 15, 25, 0 });
	cr_assert_eq(resolve_retired(&tracebacks, &fixture->mappings, ID, &traceback), 0);
	resolve_begin(&tracebacks);
	cr_assert_eq(forget_retired(&tracebacks, NULL, 0), 0);
	cr_expect_eq(tracebacks.traceback_nr, 0);
	cr_expect_eq(all_allocations(&tracebacks), 8);
	end(fixture, &tracebacks);
}

/* The library was unloaded so long ago that its file is forgotten. */
Test(traceback_versions, of_forgotten_code_stay)
{
	struct fixture *fixture = begin();
	struct tracebacks tracebacks = {};
	const char *program = "8000-9000 r-xp 00008000 00:00 0 [vdso]\n";

	drain(fixture, &tracebacks, 18, 1, (uint64_t[]){ 15, 0 });
	for (uint64_t i = 0; i < 3; i++) {
		fixture->time_ns = 20 + i;
		read_maps(fixture, program);
		drain(fixture, &tracebacks, 30 + i, 1, (uint64_t[]){ 15, 0 });
	}
	cr_assert_null(mappings_find(&fixture->mappings, PLUGIN));
	map_plugin(fixture, 60, 0x20000);
	drain(fixture, &tracebacks, 70, 2, (uint64_t[]){ 15, 65, 0 });
	expect_born(&tracebacks, 15, 0x10000, 1);
	expect_born(&tracebacks, 65, 0x20000, 1);
	end(fixture, &tracebacks);
}

/* A process that changes its code all the time must not make the recorder slow. */
Test(traceback_versions, are_limited)
{
	struct fixture *fixture = begin();
	struct tracebacks tracebacks = {};

	for (uint64_t i = 1; i < 1000; i++)
		map_plugin(fixture, 10 + i, 0x10000 * (1 + i % 3));
	tracebacks.version_nr = 4000;
	drain(fixture, &tracebacks, 2000, 3, (uint64_t[]){ 10, 500, 1500, 0 });
	cr_expect_leq(tracebacks.traceback_nr, 5);
	cr_expect(tracebacks_find_born(&tracebacks, ID, 500)->has_unsure);
	expect_born(&tracebacks, 1500, 0x10000, 1);
	end(fixture, &tracebacks);
}

/* Other code comes to the plugin's address in each pass, for days. */
Test(traceback_versions, are_limited_over_all_passes)
{
	struct fixture *fixture = begin();
	struct tracebacks tracebacks = {};
	const struct known_traceback *last;
	size_t traceback_nr = 0, place_nr = 0;

	for (uint64_t i = 1; i < 2000; i++) {
		map_plugin(fixture, 10 + 10 * i, 0x10000 * (1 + i % 3));
		drain(fixture, &tracebacks, 18 + 10 * i, i, (uint64_t[]){ 15, 15 + 10 * i, 0 });
		if (i == 1000) {
			traceback_nr = tracebacks.traceback_nr;
			place_nr = tracebacks.place_nr;
		}
	}
	cr_expect_leq(traceback_nr, 520);
	cr_expect_eq(tracebacks.traceback_nr, traceback_nr);
	cr_expect_eq(tracebacks.place_nr, place_nr);
	expect_born(&tracebacks, 15, 0x10000, 1);
	last = tracebacks_find_born(&tracebacks, ID, 15000);
	cr_expect_eq(last->until_ns, UINT64_MAX);
	cr_expect(last->has_unsure);
	cr_expect_eq(tracebacks.place[last->first].object, OBJECT_GONE);
	cr_expect_eq(tracebacks.place[last->first + 1].offset, PROGRAM + 8, "the program's own frame keeps its name");
	cr_expect_eq(all_allocations(&tracebacks), 1999);
	add_mapping_at(fixture, 30000, PROGRAM, PROGRAM + 0x1000, 0x70000);
	drain(fixture, &tracebacks, 30010, 2000, (uint64_t[]){ 15, 30005, 0 });
	last = tracebacks_find_born(&tracebacks, ID, 30005);
	cr_expect_eq(tracebacks.place[last->first + 1].object, OBJECT_GONE, "until other code is there, too");
	cr_expect_eq(all_allocations(&tracebacks), 2000);
	end(fixture, &tracebacks);
}
