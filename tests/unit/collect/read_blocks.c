// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reading a map of blocks, with a map of our own in the kernel's place. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/drain/epoch_cut.h"

#define BUCKETS 65536
#define IMAGES 3

/* The blocks of bucket i are numbered from first[i] to before first[i + 1]. */
static uint32_t first[BUCKETS + 1];
static bool stands_still;
static int fails_at = -1;

static void fill(uint32_t in_each, uint32_t in_middle)
{
	for (uint32_t i = 0; i < BUCKETS; i++)
		first[i + 1] = first[i] + (i == BUCKETS / 2 - 1 ? in_middle : in_each);
}

static void put(uint32_t i, struct block_key *key, struct block *block)
{
	*key = block_key_of(16 * (uint64_t)i, 1 + i % IMAGES, LAYER_HEAP);
	*block = (struct block){ .size = i, .birth_ns = 1, .thread = 7, .domain = 2,
				 .epoch = 1 + i % 2 };
}

/* As the kernel's: whole buckets only, and at the end -ENOENT. */
static int read_fake(const struct blocks_map *map, const uint64_t *from, uint64_t *ret_next,
		     struct block_key *key, struct block *block, uint32_t *nr)
{
	uint64_t bucket = from ? *from : 0;
	uint32_t done = 0;

	(void)source;
	if (fails_at >= 0 && bucket >= (uint64_t)fails_at)
		return -EFAULT;
	for (; bucket < BUCKETS; bucket++) {
		uint32_t in_it = first[bucket + 1] - first[bucket];

		if (in_it > *nr - done)
			break;
		for (uint32_t i = first[bucket]; i < first[bucket + 1]; i++, done++)
			put(i, &key[done], &block[done]);
	}
	if (!done && bucket < BUCKETS)
		return -ENOSPC;
	*nr = done;
	*ret_next = bucket;
	if (stands_still && from)
		*ret_next = *from;
	return bucket < BUCKETS ? 0 : -ENOENT;
}

static const struct blocks_map fake = { read_fake, -1 };

static bool is_right(const struct image_blocks *image, const struct drained_block *block)
{
	struct block_key key = drained_block_key(image, block);

	return key.address == 16 * block->size && block_key_image(&key) == 1 + block->size % IMAGES &&
	       block_key_layer(&key) == LAYER_HEAP && block->thread == 7 && block->domain == 2;
}

/* Each block that was born in the epoch or before must be there once. */
static void read_and_check(uint64_t last)
{
	uint32_t nr = first[BUCKETS], wrong = 0;
	uint8_t *found = calloc(nr + 1, 1);
	struct drained_blocks blocks = {};

	cr_assert_eq(read_blocks(&fake, last, &blocks), 0);
	for (size_t image = 0; image < blocks.image_nr; image++)
		for (const struct block_chunk *c = blocks.image[image].chunk; c; c = c->next)
			for (size_t i = 0; i < c->nr; i++) {
				found[c->block[i].size]++;
				wrong += !is_right(&blocks.image[image], &c->block[i]);
			}
	for (uint32_t i = 0; i < nr; i++)
		wrong += found[i] != (1 + i % 2 <= last);
	cr_expect_eq(wrong, 0, "%u blocks are wrong", wrong);
	free(found);
	drained_blocks_release(&blocks);
}

Test(read_blocks, finds_each_block_once)
{
	fill(3, 3);
	read_and_check(2);
}

Test(read_blocks, leaves_out_blocks_born_after_the_epoch)
{
	fill(1, 1);
	read_and_check(1);
	read_and_check(0);
}

Test(read_blocks, returns_nothing_for_an_empty_map)
{
	fill(0, 0);
	read_and_check(2);
}

Test(read_blocks, finds_blocks_that_are_only_in_one_bucket)
{
	fill(0, 5);
	read_and_check(2);
}

Test(read_blocks, finds_blocks_of_a_bucket_larger_than_a_batch)
{
	fill(1, 20000);
	read_and_check(2);
}

static void expect_error(int err)
{
	struct drained_blocks blocks = {};

	cr_expect_eq(read_blocks(&fake, 2, &blocks), err);
	drained_blocks_release(&blocks);
}

Test(read_blocks, stops_when_the_position_does_not_advance)
{
	fill(3, 3);
	stands_still = true;
	expect_error(-EIO);
}

Test(read_blocks, returns_the_error_of_the_map)
{
	fill(1, 1);
	fails_at = BUCKETS / 2 + 10000;
	expect_error(-EFAULT);
}
