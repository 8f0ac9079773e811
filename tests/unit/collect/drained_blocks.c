// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>

#include "collect/drain/block_set.h"

static void add(struct drained_blocks *blocks, uint64_t image, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		struct block_key key = block_key_of(i, image, i % LAYER_NR);

		cr_assert_eq(drained_blocks_add(blocks, &key, &(struct block){ .size = i }), 0);
	}
}

static uint64_t sum_of(const struct drained_blocks *blocks, uint64_t image, size_t *ret_nr)
{
	const struct image_blocks *of = drained_blocks_of(blocks, image);
	uint64_t sum = 0;
	size_t nr = 0;

	for (const struct block_chunk *c = of ? of->chunk : NULL; c; c = c->next)
		for (size_t i = 0; i < c->nr; i++, nr++)
			sum += c->block[i].size;
	cr_expect_eq(nr, of ? of->nr : 0);
	*ret_nr = nr;
	return sum;
}

static void expect_range(const struct drained_blocks *blocks, uint64_t image, uint64_t from,
			 uint64_t to)
{
	size_t nr;

	cr_expect_eq(sum_of(blocks, image, &nr), (to * (to - 1) - from * (from - 1)) / 2);
	cr_expect_eq(nr, to - from);
}

Test(drained_blocks, are_stored_for_each_image)
{
	struct drained_blocks blocks = {};

	add(&blocks, 1, 1, 300001);
	add(&blocks, 2, 1, 2);
	add(&blocks, 1, 300001, 500001);
	expect_range(&blocks, 1, 1, 500001);
	expect_range(&blocks, 2, 1, 2);
	cr_expect_null(drained_blocks_of(&blocks, 3));
	drained_blocks_release(&blocks);
}

Test(drained_blocks, may_be_of_many_small_images)
{
	struct drained_blocks blocks = {};

	for (uint64_t round = 0; round < 3; round++)
		for (uint64_t image = 1; image <= 5000; image++)
			add(&blocks, image, 1 + round * 10, 11 + round * 10);
	cr_expect_eq(blocks.image_nr, 5000);
	for (uint64_t image = 1; image <= 5000; image++)
		expect_range(&blocks, image, 1, 31);
	drained_blocks_release(&blocks);
}

Test(drained_blocks, allocate_little_more_than_they_need)
{
	struct drained_blocks blocks = {};
	size_t room = 0;

	add(&blocks, 1, 1, 3000001);
	for (const struct block_chunk *c = drained_blocks_of(&blocks, 1)->chunk; c; c = c->next)
		room += c->room;
	cr_expect_lt(room, 3000000 + (4 << 20) / sizeof(struct drained_block));
	drained_blocks_release(&blocks);
}

static bool is_below(const void *limit, const struct block_key *key, uint64_t birth_ns)
{
	cr_expect_eq(birth_ns, 0);
	cr_expect_eq(block_key_layer(key), key->address % LAYER_NR);
	return key->address < *(const uint64_t *)limit;
}

Test(drained_blocks, are_filtered)
{
	struct drained_blocks blocks = {};
	uint64_t limit = 1000;

	add(&blocks, 1, 1, 3000);
	add(&blocks, 2, 2000, 3000);
	drained_blocks_filter(&blocks, is_below, &limit);
	expect_range(&blocks, 1, 1, 1000);
	expect_range(&blocks, 2, 0, 0);
	drained_blocks_release(&blocks);
}

/* ---- weights that a process reported ---- */

static void add_told(struct drained_blocks *blocks, uint64_t image, uint64_t address, uint64_t weight)
{
	struct block_key key = block_key_of(address, image, LAYER_HEAP);

	cr_assert_eq(drained_blocks_add(blocks, &key, &(struct block){ .size = 1, .birth_ns = address, .weight = weight }), 0);
}

static bool is_odd(const void *what, const struct block_key *key, uint64_t birth_ns)
{
	(void)what, (void)key;
	return birth_ns % 2;
}

/* Blocks of every third address were reported. Returns how many blocks there are. */
static size_t expect_weights(const struct drained_blocks *blocks, uint64_t image)
{
	const struct image_blocks *of = drained_blocks_of(blocks, image);
	size_t nr = 0;

	for (const struct block_chunk *c = of ? of->chunk : NULL; c; c = c->next)
		for (size_t i = 0; i < c->nr; i++, nr++) {
			uint64_t address = c->block[i].address, weight = c->weight ? c->weight[i] : 0;

			cr_assert_eq(weight, address % 3 ? 0 : address * 1000, "%lu: %lu", address, weight);
		}
	return nr;
}

Test(drained_blocks, keep_the_weights_that_were_told)
{
	struct drained_blocks blocks = {};

	for (uint64_t i = 1; i <= 3000; i++)
		add_told(&blocks, 1, i, i % 3 ? 0 : i * 1000);
	cr_expect_eq(expect_weights(&blocks, 1), 3000);
	drained_blocks_filter(&blocks, is_odd, NULL);
	cr_expect_eq(expect_weights(&blocks, 1), 1500);
	drained_blocks_release(&blocks);
}

Test(drained_blocks, need_no_room_for_weights_that_were_not_told)
{
	struct drained_blocks blocks = {};

	add(&blocks, 1, 1, 1000);
	for (const struct block_chunk *c = drained_blocks_of(&blocks, 1)->chunk; c; c = c->next)
		cr_expect_null(c->weight);
	drained_blocks_release(&blocks);
}
