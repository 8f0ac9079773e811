// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The loader's half of the nursery, on an array of our own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "collect/drain/block_set.h"
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
