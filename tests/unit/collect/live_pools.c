// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The lists of CPython's allocator, in memory that is made here: which blocks are live, and what the account make of it. */
#include "collect/python/live_pools.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define POOL 16384
#define PAGE 4096
#define POOLS 4
#define BLOCK 64

/* A process whose memory begins at BASE: an arena with four pools, the table of arenas, and two variables. */
#define BASE 0x100000ull

struct pool_image {
	uint32_t live_nr, pad;
	uint64_t free_block, next, previous;
	uint32_t arena, class, next_offset, last_offset;
	char blocks[POOL - 48];
};

static struct {
	struct pool_image pool[POOLS];
	struct {
		uint64_t address, pool_address;
		uint32_t free_nr, nr;
		uint64_t free_pools, next, previous;
	} arena[2];
	uint64_t arenas;
	uint32_t max_arenas, pad;
} memory;

#define AT(field) (BASE + ((char *)&(field) - (char *)&memory))
#define BLOCK_AT(p, i) (AT(memory.pool[p]) + 48 + (i) * (uint64_t)BLOCK)

static bool is_read[POOLS * POOL / PAGE]; /* pages of the arena */

static int read_made(void *process, uint64_t address, void *to, size_t bytes)
{
	(void)process;
	if (address - BASE > sizeof(memory) || bytes > sizeof(memory) - (address - BASE))
		return -EFAULT;
	for (uint64_t page = (address - BASE) / PAGE; page <= (address - BASE + bytes - 1) / PAGE; page++)
		if (page < POOLS * POOL / PAGE)
			is_read[page] = true;
	memcpy(to, (char *)&memory + (address - BASE), bytes);
	return 0;
}

static struct python_process where(void)
{
	return (struct python_process){ .arenas = AT(memory.arenas), .max_arenas = AT(memory.max_arenas), .pool_bytes = POOL,
					.arena_bytes = POOLS * POOL };
}

static void set_link(uint64_t block, uint64_t next)
{
	memcpy((char *)&memory + (block - BASE), &next, sizeof(next));
}

/* Pool 0: of five blocks the second and the fourth are free. Pool 1 is free. Pools 2 and 3 were never used. */
static void make_memory(void)
{
	memset(&memory, 0, sizeof(memory));
	memory.arenas = AT(memory.arena);
	memory.max_arenas = 2;
	memory.arena[0].address = AT(memory.pool);
	memory.arena[0].pool_address = AT(memory.pool[2]);
	memory.pool[0] = (struct pool_image){ .live_nr = 3, .class = BLOCK / 16 - 1, .next_offset = 48 + 5 * BLOCK,
					      .free_block = BLOCK_AT(0, 3) };
	set_link(BLOCK_AT(0, 3), BLOCK_AT(0, 1));
	memory.pool[2].live_nr = 9;
}

static struct live_pools read_pools(void)
{
	const struct python_process process = where();
	struct live_pools pools;

	cr_assert_eq(live_pools_read(&process, read_made, NULL, &pools), 0);
	return pools;
}

Test(live_pools, are_what_the_lists_say)
{
	struct live_pools pools;
	uint64_t bytes;

	make_memory();
	pools = read_pools();
	cr_expect_eq(live_pools_sum(&pools, &bytes), 3);
	cr_expect_eq(bytes, 3 * BLOCK);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 0), BLOCK), LIVE_THERE);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 0), BLOCK), LIVE_NOT);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 1), BLOCK), LIVE_NOT);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 2) + 16, 1), LIVE_NOT);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 2) + 8, 1), LIVE_NOT);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 2), BLOCK + 1), LIVE_SMALLER);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 5), 1), LIVE_NOT);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(1, 0), 1), LIVE_NOT);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(2, 0), 1), LIVE_ELSEWHERE);
	cr_expect_eq(live_pools_take(&pools, 0x5000, 1), LIVE_ELSEWHERE);
	cr_expect_eq(live_pools_sum(&pools, &bytes), 1);
	live_pools_release(&pools);
}

Test(live_pools, have_pages_that_were_never_touched)
{
	static const bool wanted[POOLS * POOL / PAGE] = { true, true, false, false, true };
	struct live_pools pools;
	uint64_t bytes;

	make_memory();
	memory.pool[0].next_offset = 48 + 100 * BLOCK;
	memory.pool[0].live_nr = 98;
	pools = read_pools();
	cr_expect_eq(live_pools_sum(&pools, &bytes), 98);
	cr_expect_eq(live_pools_take(&pools, BLOCK_AT(0, 99), BLOCK), LIVE_THERE);
	cr_expect_arr_eq(is_read, wanted, sizeof(wanted));
	live_pools_release(&pools);
}

Test(live_pools, variables_may_be_in_the_interpreter)
{
	struct python_process process = where();
	struct live_pools pools;
	uint64_t bytes;

	make_memory();
	memory.arena[1].free_pools = AT(memory.arena[1].next); /* the interpreter: 8 bytes further is the state's address */
	memory.arena[1].previous = BASE;
	process.main_interpreter = AT(memory.arena[1].free_pools);
	process.in_interpreter = 2;
	process.state = 8;
	process.arenas -= BASE;
	process.max_arenas -= BASE;
	cr_assert_eq(live_pools_read(&process, read_made, NULL, &pools), 0);
	cr_expect_eq(live_pools_sum(&pools, &bytes), 3);
	live_pools_release(&pools);
}

/* Nothing is said of lists that make no sense. */
static void expect_error(int expected, const char *what)
{
	const struct python_process process = where();
	struct live_pools pools;

	cr_expect_eq(live_pools_read(&process, read_made, NULL, &pools), expected, "%s", what);
	cr_expect_eq(pools.pool_nr, 0);
}

Test(live_pools, senseless_lists_are_refused)
{
	make_memory();
	memory.pool[0].live_nr = 4;
	expect_error(-EAGAIN, "another number of live blocks");
	make_memory();
	set_link(BLOCK_AT(0, 1), BLOCK_AT(0, 3));
	expect_error(-EAGAIN, "a free list in a circle");
	make_memory();
	set_link(BLOCK_AT(0, 3), BLOCK_AT(0, 1) + 16);
	expect_error(-EAGAIN, "a free block inside of another one");
	make_memory();
	memory.pool[0].free_block = 8;
	expect_error(-EAGAIN, "a free block elsewhere");
	make_memory();
	memory.pool[0].class = 32;
	expect_error(-EAGAIN, "a class that does not exist");
	make_memory();
	memory.pool[0].next_offset = POOL + 16;
	expect_error(-EAGAIN, "a pool that is too long");
	make_memory();
	memory.max_arenas = 1 << 30;
	expect_error(-E2BIG, "very many arenas");
	make_memory();
	memory.arenas = 0;
	expect_error(-EFAULT, "no arenas");
	make_memory();
	memory.arena[0].address = -100ull;
	memory.arena[0].pool_address = -1ull;
	cr_expect_eq(read_pools().pool_nr, 0, "an arena at the end of the addresses");
}

/* ---- against the account ---- */

static void check(struct python_checked *checked)
{
	struct live_pools pools = read_pools();

	live_pools_take(&pools, BLOCK_AT(0, 4), BLOCK); /* the account has this one */
	python_checked_note(checked, &pools);
	cr_expect_null(pools.pool);
}

Test(live_pools, older_blocks_are_those_of_the_first_time)
{
	struct python_checked checked = {};

	make_memory();
	check(&checked);
	cr_expect_eq(checked.older_nr, 2);
	cr_expect_eq(checked.older_bytes, 2 * BLOCK);
	cr_expect_eq(checked.unseen, 0);

	/* one of them is freed, and another block is there that the account should have */
	memory.pool[0].free_block = BLOCK_AT(0, 1);
	set_link(BLOCK_AT(0, 1), BLOCK_AT(0, 0));
	check(&checked);
	cr_expect_eq(checked.older_nr, 1);
	cr_expect_eq(checked.older_bytes, BLOCK);
	cr_expect_eq(checked.unseen, 1);

	/* the address of an older one is given out again: that block is none of the older ones */
	memory.pool[0].live_nr = 4;
	memory.pool[0].free_block = BLOCK_AT(0, 1);
	set_link(BLOCK_AT(0, 1), 0);
	check(&checked);
	cr_expect_eq(checked.older_nr, 1);
	cr_expect_eq(checked.unseen, 2);
	live_pools_release(&checked.older);
}
