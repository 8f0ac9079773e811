// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* mremap: a realloc of pages. */
#include "ranges.h"
#include <bpf/bpf_helpers.h>

#define MAY_MOVE 1 /* MREMAP_MAYMOVE */
#define KEEP_OLD 4 /* MREMAP_DONTUNMAP */

BOOK_TEST(ranges, mremap_in_place_is_a_free_and_an_allocation)
{
	user_mmap(PAGE, MAP);
	user_mremap(MAP, PAGE, 3 * PAGE, MAP);
	expect_mapped(MAP, 3 * PAGE);
	user_mremap(MAP, 3 * PAGE, 2 * PAGE, MAP);

	expect_mapped(MAP, 2 * PAGE);
	expect(allocations, 3);
	expect(frees, 2);
	expect(current_bytes, 2 * PAGE);
	expect(temporary_blocks, 0);
}

BOOK_TEST(ranges, mremap_that_moves_removes_the_old_range_when_it_begins)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(2 * PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 8 * PAGE));
	expect(current_bytes, 2 * PAGE);
	thread_run(other);
	user_mmap(3 * PAGE, MAP - PAGE);
	thread_run(main_thread);
	mapping_leave(SHAPE_MREMAP, sp_at(1), MAP + 0x100000);

	expect_mapped(MAP - PAGE, 3 * PAGE);
	expect_mapped(MAP + 0x100000, 8 * PAGE);
	expect(frees, 1);
	expect(freed_bytes, 2 * PAGE);
}

BOOK_TEST(ranges, mremap_that_fails_keeps_the_old_range_unchanged)
{
	struct block before;

	user_mmap(PAGE + 1, MAP);
	before = *mapping_at(MAP);
	user_mremap(MAP, 2 * PAGE, 1ULL << 50, MAP_FAILED);
	user_mremap(MAP, 2 * PAGE, 0, MAP_FAILED);
	user_mremap(MAP + 8, 2 * PAGE, 5 * PAGE, MAP_FAILED);

	cr_expect(mapping_at(MAP) && !memcmp(mapping_at(MAP), &before, sizeof(before)));
	expect(failed_calls, 3);
	expect(allocations, 1);
	user_munmap(MAP + PAGE, PAGE);
	expect_mapped(MAP, PAGE);
}

BOOK_TEST(ranges, mremap_may_keep_the_old_range)
{
	user_mmap(PAGE, MAP);
	user_mremap(MAP, 0, PAGE, MAP + 0x10000);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, PAGE, PAGE, KEEP_OLD | MAY_MOVE));
	mapping_leave(SHAPE_MREMAP, sp_at(1), MAP + 0x20000);

	expect_mapped(MAP, PAGE);
	expect_mapped(MAP + 0x10000, PAGE);
	expect_mapped(MAP + 0x20000, PAGE);
	expect(frees, 0);
	expect(unknown_frees, 0);
}

BOOK_TEST(ranges, mremap_of_a_part_leaves_the_rest)
{
	user_mmap(4 * PAGE, MAP);
	user_mremap(MAP + PAGE, 2 * PAGE, 5 * PAGE, MAP + 0x10000);

	expect_mapped(MAP, PAGE);
	expect_mapped(MAP + 3 * PAGE, PAGE);
	expect_mapped(MAP + 0x10000, 5 * PAGE);
	expect(current_bytes, 7 * PAGE);
	expect(unknown_frees, 0);
}

BOOK_TEST(ranges, mremap_of_several_ranges_keeps_a_range_mapped_there_meanwhile)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(PAGE, MAP);
	user_mmap(PAGE, MAP + PAGE);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 3 * PAGE));
	thread_run(other);
	user_mmap(100, MAP);
	thread_run(main_thread);
	mapping_leave(SHAPE_MREMAP, sp_at(1), MAP + 0x10000);

	expect_mapped(MAP, 100);
	expect_unmapped(MAP + PAGE);
	expect_mapped(MAP + 0x10000, 3 * PAGE);
}

BOOK_TEST(ranges, mremap_that_never_returns_frees_the_old_range)
{
	user_mmap(PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, PAGE, 3 * PAGE));
	stack_is(0x403000); /* another call */
	user_mmap(PAGE, MAP + 0x10000);
	expect_unmapped(MAP);
	expect(frees, 1);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP + 0x20000, PAGE, 3 * PAGE));
	stack_is(0x404000);
	user_mmap(PAGE, MAP + 0x30000);

	expect(frees, 1);
	expect_loss(calls_unreturned, 2);
	expect_loss(ranges_missed, 1);
}

BOOK_TEST(ranges, mremap_of_unknown_memory_is_an_unknown_free)
{
	user_mremap(MAP, PAGE, 2 * PAGE, MAP);

	expect_mapped(MAP, 2 * PAGE);
	expect(unknown_frees, 1);
}

BOOK_TEST(ranges, mremap_over_other_ranges_frees_the_part_that_it_covers)
{
	user_mmap(PAGE, MAP);
	user_mmap(4 * PAGE, MAP + 0x10000);
	user_mremap(MAP, PAGE, 2 * PAGE, MAP + 0x11000);

	expect_mapped(MAP + 0x10000, PAGE);
	expect_mapped(MAP + 0x11000, 2 * PAGE);
	expect_mapped(MAP + 0x13000, PAGE);
	expect(current_blocks, 3);
}

BOOK_TEST(ranges, a_thread_killed_in_mremap_keeps_the_old_range)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(2 * PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 8 * PAGE));
	thread_exit(main_thread, 9);

	expect_mapped(MAP, 2 * PAGE);
	expect_loss(calls_unreturned, 1);
	thread_run(other);
	user_munmap(MAP + PAGE, PAGE);
	expect_mapped(MAP, PAGE);
}

BOOK_TEST(ranges, a_thread_killed_in_mremap_does_not_restore_a_range_that_is_mapped_again)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(2 * PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 8 * PAGE));
	thread_run(other);
	user_mmap(PAGE, MAP + PAGE);
	thread_exit(main_thread, 9);

	expect_unmapped(MAP);
	expect_mapped(MAP + PAGE, PAGE);
	expect_loss(calls_unreturned, 1);
}
