// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reading a map by two readers, with a map of our own in the kernel's place. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/drain/block_reader.h"

#define BUCKETS 65536
#define IMAGES 3

/* The blocks of bucket i are numbered from first[i] to before first[i + 1]. */
static uint32_t first[BUCKETS + 1];
static uint64_t shift; /* positions are bucket numbers and this */
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
static int read_fake(const struct block_source *source, const uint64_t *from, uint64_t *ret_next,
		     struct block_key *key, struct block *block, uint32_t *nr)
{
	uint64_t bucket = from ? *from - shift : 0;
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
	*ret_next = bucket + shift;
	if (stands_still && from)
		*ret_next = *from;
	return bucket < BUCKETS ? 0 : -ENOENT;
}

static const struct block_source fake = { read_fake, BUCKETS, -1 };

/* How often each was found: once in the parts, and once more at most in the border. */
static void check(const struct blocks_read *read, uint64_t last)
{
	uint32_t nr = first[BUCKETS], wrong = 0;
	uint8_t *in_part = calloc(nr + 1, 1), *in_border = calloc(nr + 1, 1);

	for (int part = 0; part < 2; part++)
		for (size_t image = 0; image < read->part[part].image_nr; image++) {
			const struct image_blocks *of = &read->part[part].image[image];

			for (const struct block_chunk *c = of->chunk; c; c = c->next)
				for (size_t i = 0; i < c->nr; i++) {
					struct block_key key = drained_block_key(of, &c->block[i]);

					in_part[c->block[i].size]++;
					wrong += key.address != 16 * c->block[i].size ||
						 block_key_image(&key) !=
							 1 + c->block[i].size % IMAGES ||
						 block_key_layer(&key) != LAYER_HEAP ||
						 c->block[i].thread != 7 || c->block[i].domain != 2;
				}
		}
	for (size_t i = 0; i < read->border_nr; i++)
		in_border[read->border[i].block.size]++;
	for (uint32_t i = 0; i < nr; i++) {
		bool wanted = 1 + i % 2 <= last;

		wrong += wanted ? in_part[i] > 1 || in_border[i] > 1 || !(in_part[i] + in_border[i]) :
				  in_part[i] + in_border[i];
	}
	cr_expect_eq(wrong, 0, "%u blocks are wrong", wrong);
	free(in_part);
	free(in_border);
}

static void read_and_check(const struct block_source *source, uint64_t last, size_t border_most)
{
	struct blocks_read read;

	cr_assert_eq(read_blocks(source, last, &read), 0);
	check(&read, last);
	cr_expect_leq(read.border_nr, border_most);
	blocks_read_release(&read);
}

Test(read_blocks, finds_each_block_once_and_border_blocks_at_most_twice)
{
	fill(3, 3);
	read_and_check(&fake, 2, 256);
}

Test(read_blocks, leaves_out_blocks_born_after_the_epoch)
{
	fill(1, 1);
	read_and_check(&fake, 1, 256);
	read_and_check(&fake, 0, 0);
}

Test(read_blocks, returns_nothing_for_an_empty_map)
{
	fill(0, 0);
	read_and_check(&fake, 2, 0);
}

Test(read_blocks, finds_blocks_that_are_only_in_the_bucket_before_the_middle)
{
	fill(0, 5);
	read_and_check(&fake, 2, 5);
}

Test(read_blocks, finds_blocks_of_a_bucket_larger_than_a_batch)
{
	fill(1, 20000);
	read_and_check(&fake, 2, 40000);
}

Test(read_blocks, uses_one_reader_when_positions_are_not_buckets)
{
	struct block_source unknown = fake;

	fill(3, 3);
	unknown.bucket_nr = 0;
	shift = 1ULL << 40;
	read_and_check(&unknown, 2, 0);
}

Test(read_blocks, uses_one_reader_when_positions_are_out_of_range)
{
	fill(3, 3);
	shift = BUCKETS; /* a reader that begins in the middle would find wrong blocks */
	read_and_check(&fake, 2, 0);
}

Test(read_blocks, stops_when_the_position_does_not_advance)
{
	struct blocks_read read;

	fill(3, 3);
	stands_still = true;
	cr_expect_eq(read_blocks(&fake, 2, &read), -EIO);
	blocks_read_release(&read);
}

Test(read_blocks, returns_the_error_of_a_reader)
{
	struct blocks_read read;

	fill(1, 1);
	fails_at = BUCKETS / 2 + 10000;
	cr_expect_eq(read_blocks(&fake, 2, &read), -EFAULT);
	blocks_read_release(&read);
}
