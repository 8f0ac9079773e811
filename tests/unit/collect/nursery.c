// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The loader's half of the nursery, on an array of our own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collect/drain/block_set.h"
#include "collect/drain/epoch_cut.h"
#include "collect/drain/nursery.h"

static struct nursery_place *busy; /* a program lets it go while the loader sleeps for the third time; or NULL */
static int sleep_nr;

static int play_sleep(const struct timespec *time, struct timespec *left)
{
	(void)time, (void)left;
	if (++sleep_nr == 3 && busy) {
		busy->block[0] = 1; /* the size */
		busy->state = NURSERY_STATE(9 * NURSERY_CHANGE, NURSERY_FULL);
	}
	return 0;
}

#define nanosleep play_sleep
#include "collect/drain/nursery.c"

#define PLACES 64

static struct nursery_place place[PLACES];
static const struct nursery nursery = { place, PLACES - 1 };

static struct block_key key_of(uint64_t address, uint64_t image)
{
	return block_key_of(address, image, LAYER_HEAP);
}

static struct nursery_place *own_place_of(const struct block_key *key)
{
	return &place[nursery_slot(key, nursery.mask)];
}

static void put(uint64_t address, uint64_t image, uint32_t epoch)
{
	struct block_key key = key_of(address, image);
	struct block block = { .size = address, .birth_ns = 7, .epoch = epoch };
	struct nursery_place *to = own_place_of(&key);

	*to = (struct nursery_place){ .state = NURSERY_STATE(5 * NURSERY_CHANGE, NURSERY_FULL), .key = key };
	memcpy(to->block, &block, sizeof(to->block));
}

static size_t read_nr(uint64_t last)
{
	struct drained_blocks blocks = {};
	size_t nr = 0;

	cr_assert_eq(nursery_read(&nursery, last, &blocks), 0);
	for (size_t i = 0; i < blocks.image_nr; i++)
		nr += blocks.image[i].nr;
	drained_blocks_release(&blocks);
	return nr;
}

Test(nursery, that_is_absent_holds_nothing)
{
	const struct nursery none = {};
	struct block_key key = key_of(0x1000, 1);
	struct drained_blocks blocks = {};
	struct block block;

	cr_expect_eq(nursery_read(&none, 9, &blocks), 0);
	cr_expect_eq(blocks.image_nr, 0);
	cr_expect(!nursery_find(&none, &key, &block));
	nursery_forget(&none, &key, 1);
}

Test(nursery, is_read_up_to_an_epoch)
{
	put(0x1000, 1, 3);
	put(0x5000, 2, 4);
	cr_expect_eq(read_nr(2), 0);
	cr_expect_eq(read_nr(3), 1);
	cr_expect_eq(read_nr(4), 2);
}

Test(nursery, finds_a_block_by_its_whole_key)
{
	struct block_key right = key_of(0x1000, 1), address = key_of(0x1010, 1);
	struct block_key mapping = block_key_of(0x1000, 1, LAYER_MAPPING);
	struct block block = {};

	put(0x1000, 1, 3);
	cr_expect(nursery_find(&nursery, &right, &block));
	cr_expect_eq(block.size, 0x1000);
	cr_expect(!nursery_find(&nursery, &address, &block));
	cr_expect(!nursery_find(&nursery, &mapping, &block));
	own_place_of(&right)->state = NURSERY_STATE(6 * NURSERY_CHANGE, NURSERY_EMPTY);
	cr_expect(!nursery_find(&nursery, &right, &block));
}

Test(nursery, waits_for_a_busy_place)
{
	struct block_key key = key_of(0x1000, 1);
	struct block block = {};

	put(0x1000, 1, 3);
	busy = own_place_of(&key);
	busy->state = NURSERY_STATE(8 * NURSERY_CHANGE, NURSERY_BUSY);
	cr_expect_eq(read_nr(3), 1);
	cr_expect_eq(sleep_nr, 3);
	cr_expect(nursery_find(&nursery, &key, &block));
	cr_expect_eq(block.size, 1);
}

Test(nursery, returns_an_error_for_a_place_that_stays_busy)
{
	struct block_key key = key_of(0x1000, 1);
	struct drained_blocks blocks = {};

	put(0x1000, 1, 3);
	own_place_of(&key)->state = NURSERY_BUSY;
	cr_expect_eq(nursery_read(&nursery, 3, &blocks), -EBUSY);
	cr_expect_eq(sleep_nr, WAITS_MAX);
	drained_blocks_release(&blocks);
}

static bool is_first(const void *what, uint64_t image)
{
	(void)what;
	return image == 1;
}

Test(nursery, drops_blocks_of_removed_images)
{
	struct block_key gone = key_of(0x1000, 1), there = key_of(0x5000, 2);
	uint64_t before;
	struct block block;

	put(0x1000, 1, 3);
	put(0x5000, 2, 3);
	before = own_place_of(&gone)->state;
	nursery_sweep(&nursery, is_first, NULL);
	cr_expect(!nursery_find(&nursery, &gone, &block));
	cr_expect(nursery_find(&nursery, &there, &block));
	cr_expect_gt(own_place_of(&gone)->state, before, "who looked before sees that it has changed");
}

Test(nursery, forgets_blocks_deleted_from_the_map)
{
	struct block_key key[] = { key_of(0x1000, 1), block_key_of(0x1000, 1, LAYER_MAPPING) };

	own_place_of(&key[0])->mapped = 3;
	nursery_forget(&nursery, key, 2);
	cr_expect_eq(own_place_of(&key[0])->mapped, 2);
}

/* ---- drained blocks ---- */

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

/* ---- read blocks ---- */

/* Reading a map of blocks, with a map of our own in the kernel's place. */

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

static void put_block(uint32_t i, struct block_key *key, struct block *block)
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

	(void)map;
	if (fails_at >= 0 && bucket >= (uint64_t)fails_at)
		return -EFAULT;
	for (; bucket < BUCKETS; bucket++) {
		uint32_t in_it = first[bucket + 1] - first[bucket];

		if (in_it > *nr - done)
			break;
		for (uint32_t i = first[bucket]; i < first[bucket + 1]; i++, done++)
			put_block(i, &key[done], &block[done]);
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
