// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls that change mappings while a snapshot is taken. */
#include "cut_orders.h"

/* Unmaps the middle one of three pages. The rest has sizes of its own, so no mixture looks right. */
static void munmap_the_middle(void)
{
	user_munmap(0x2000, 0x1000);
	now_live(1 | 2 | 0x1000 | 0x800);
}

BOOK_TEST(cut, is_consistent_when_the_middle_of_a_mapping_is_unmapped)
{
	mapping_size = 0x2800;
	run_all_orders(munmap_the_middle, NULL, 1000);
}

static void munmap_twice(void)
{
	user_munmap(0x3000, 0x1000);
	now_live(1 | 2 | 0x2000);
	user_munmap(0x1000, 0x1000);
	now_live(1 | 2 | 0x1000);
}

BOOK_TEST(cut, is_consistent_when_a_mapping_is_unmapped_in_two_parts)
{
	mapping_size = 0x2800;
	run_all_orders(munmap_twice, NULL, 1000);
}

static void mremap_that_moves(void)
{
	user_mremap(0x1000, 0x2800, 0x4000, 0x3000);
	now_live(1 | 2 | 0x4000);
}

BOOK_TEST(cut, is_consistent_when_an_mremap_moves)
{
	mapping_size = 0x2800;
	run_all_orders(mremap_that_moves, NULL, 1000);
}

static void mremap_that_fails(void)
{
	user_mremap(0x1000, 0x2800, 0x4000, MAP_FAILED);
	now_live(1 | 2 | 0x2800);
}

BOOK_TEST(cut, is_consistent_when_an_mremap_fails)
{
	mapping_size = 0x2800;
	run_all_orders(mremap_that_fails, NULL, 1000);
}

static void mmap_over_another(void)
{
	user_mmap(0x400, 0x2000);
	now_live(1 | 2 | 0x1000 | 0x800 | 0x400);
}

BOOK_TEST(cut, is_consistent_when_a_mapping_replaces_another)
{
	mapping_size = 0x2800;
	run_all_orders(mmap_over_another, NULL, 1000);
}
