// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect.h"
#include "collect/drain/map_sizes.h"
#include "collect/recording/map_shares.h"

#define MIB (1ULL << 20)

static struct map_room choose(const struct collector_options *options)
{
	struct map_room room;
	struct reason why = { "" };

	cr_assert_eq(map_room_choose(&room, options, &why), 0, "%s", why.text);
	return room;
}

Test(room, is_chosen_by_default_and_on_request)
{
	static const struct {
		struct collector_options options;
		struct map_room room;
	} cases[] = {
		{ {}, { 4 * MIB, MIB, 256 << 10, 1, 512, 1, 1 } },
		{ { .max_blocks = 1000 }, { 1000, 64 << 10, 256 << 10, 1, 512, 1, 1 } },
		{ { .max_blocks = 8 * MIB, .max_tracebacks = 7 }, { 8 * MIB, 2 * MIB, 7, 1, 512, 1, 1 } },
		{ { .domains = COLLECTOR_MMAP }, { 4 * MIB, MIB, 256 << 10, 256 << 10, 512, 1, 1 } },
		{ { .max_blocks = 1 << 20, .max_size = 1 }, { MIB, 256 << 10, 256 << 10, 1, 512, 4 * MIB, 1 } },
		{ { .domains = COLLECTOR_PAGES }, { 1024, 1024, 256 << 10, 1, 512, 1, MIB } },
		{ { .domains = COLLECTOR_PAGES, .max_blocks = 3200 }, { 1024, 1024, 256 << 10, 1, 512, 1, 101 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct map_room room = choose(&cases[i].options);

		cr_expect(!memcmp(&room, &cases[i].room, sizeof(room)), "case %zu", i);
	}
}

/* Bytes of one more entry, in sizes of the kernel's allocator. A map's buckets are a power of two. */
Test(room, counts_the_bytes_of_each_entry)
{
	static const struct {
		struct map_room more;
		uint32_t traceback_limit;
		uint64_t bytes;
	} cases[] = {
		{ { .blocks = 1 }, 64, 128 },	     { { .rest = 1 }, 64, 128 + 96 },
		{ { .tracebacks = 1 }, 64, 1024 },   { { .tracebacks = 1 }, 127, 2048 },
		{ { .tracebacks = 1 }, 1, 192 },     { { .starts = 1 }, 64, 96 },
		{ { .slabs = 1 }, 64, MIB },	     { { .free_filter = 1 }, 64, 8 },
		{ { .leaves = 1 }, 64, 512 },
		{ { .blocks = 400 }, 64, 400 * 128 + 512 * 16 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct map_room *more = &cases[i].more;
		struct map_room room = { 300, 300, 300, 300, 5, 300, 300 };
		uint64_t before = map_room_bytes(&room, cases[i].traceback_limit);

		room.blocks += more->blocks;
		room.rest += more->rest;
		room.tracebacks += more->tracebacks;
		room.starts += more->starts;
		room.slabs += more->slabs;
		room.free_filter += more->free_filter;
		room.leaves += more->leaves;
		cr_expect_eq(map_room_bytes(&room, cases[i].traceback_limit) - before, cases[i].bytes,
			     "case %zu: %ju", i,
			     (uintmax_t)(map_room_bytes(&room, cases[i].traceback_limit) - before));
	}
}

static const struct collector_options kinds[] = {
	{}, { .traceback_limit = 127 }, { .traceback_limit = 1 }, { .domains = COLLECTOR_MMAP },
	{ .sample_bytes = 512 << 10 }, { .min_size = 100, .domains = COLLECTOR_MMAP },
};

/* Full maps stay within the limit, and use most of it. */
Test(room, fits_into_any_memory_limit)
{
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		uint32_t blocks = 0;

		for (uint64_t bytes = 24 * MIB; bytes < 1ULL << 40; bytes += bytes / 7 + 4321) {
			struct collector_options options = kinds[kind];
			struct map_room room;
			uint64_t taken;

			options.max_memory = bytes;
			room = choose(&options);
			taken = map_room_bytes(&room, options.traceback_limit ?: 64);
			cr_expect(taken <= bytes, "%zu: %ju of %ju", kind, (uintmax_t)taken,
				  (uintmax_t)bytes);
			cr_expect(taken >= bytes / 10 * 8 || room.blocks == COLLECTOR_MAX_BLOCKS_MOST,
				  "%zu: only %ju of %ju", kind, (uintmax_t)taken, (uintmax_t)bytes);
			cr_expect(room.blocks >= blocks, "%zu: fewer blocks in %ju", kind,
				  (uintmax_t)bytes);
			blocks = room.blocks;
		}
		cr_expect_eq(blocks, COLLECTOR_MAX_BLOCKS_MOST);
	}
}

Test(room, refuses_a_memory_limit_that_is_too_small)
{
	static const uint64_t bounds[] = { 1, 4096, MIB, 16 * MIB };

	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		const struct collector_options options = { .max_memory = bounds[i] };
		struct map_room room = { .blocks = 7 };
		struct reason why = { "" };

		cr_expect_eq(map_room_choose(&room, &options, &why), -ERANGE);
		cr_expect_eq(room.blocks, 7);
		cr_expect(strstr(why.text, "is too little: "), "%s", why.text);
	}
}

/* ---- fair ---- */

#define ROOM 10000

/* The holders take one each in turn, as long as the share allows. Returns the sum, and the least of one holder. */
static uint64_t take_all(uint64_t holder_nr, uint64_t *ret_least)
{
	uint64_t held[64] = {}, sum = 0, before;

	do {
		before = sum;
		for (uint64_t i = 0; i < holder_nr; i++)
			if (sum < ROOM && held[i] < fair_most(ROOM, sum)) {
				held[i]++;
				sum++;
			}
	} while (sum != before);
	*ret_least = held[holder_nr - 1];
	return sum;
}

Test(fair, share_of_a_single_holder_is_three_quarters)
{
	uint64_t least;

	cr_expect_eq(take_all(1, &least), ROOM / 4 * 3);
	cr_expect_eq(fair_most(ROOM, 0), ROOM / 4 * 3);
}

Test(fair, shares_of_several_holders_are_equal_and_leave_some_free)
{
	for (uint64_t nr = 2; nr <= 20; nr++) {
		uint64_t least, sum = take_all(nr, &least), share = 3 * ROOM / (3 * nr + 1);

		cr_expect_lt(sum, ROOM, "%lu have all", nr);
		cr_expect_geq(least + 2, share, "%lu: one has %lu of %lu", nr, least, share);
	}
}

Test(fair, share_is_never_zero)
{
	cr_expect_eq(fair_most(ROOM, ROOM), ROOM / 64 + 1);
	cr_expect_eq(fair_most(ROOM, 2 * ROOM), ROOM / 64 + 1);
	cr_expect_eq(fair_most(1, 0), 1);
	cr_expect_eq(fair_most(1, 1), 1);
}
