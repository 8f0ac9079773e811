// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Every map full, every allocation of the kernel's failing: counted, never guessed. */
#include "target.h"

static void have_room_for(__u32 block_cnt, __u32 note_cnt)
{
	nursery_use(0);
	fake_map_resize(&blocks, block_cnt);
	fake_map_resize(&dropped_blocks, note_cnt);
}

ACCOUNT_TEST(losses, a_full_block_map_drops_blocks)
{
	have_room_for(2, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);

	expect_gone(0x3000);
	expect_loss(blocks_dropped, 1);
	expect(allocations, 2);
	expect(current_bytes, 3);
	expect(peak_bytes, 3);
	expect(dropped_blocks, 1);
	expect(dropped_bytes, 4);
}

ACCOUNT_TEST(losses, a_free_of_a_dropped_block_is_counted)
{
	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);
	user_free(0x2000);

	expect_loss(blocks_dropped, 2);
	expect(dropped_frees, 1);
	expect(dropped_blocks, 1);
	expect(dropped_bytes, 4);
	expect(unknown_frees, 0);
	expect(frees, 0);

	user_free(0x2000);
	expect(unknown_frees, 1);
	expect(dropped_frees, 1);
}

ACCOUNT_TEST(losses, a_dropped_block_counts_for_its_process)
{
	struct target_process *other = process_start(200);

	process_admit(other);
	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	thread_run(thread_start(other, 200));
	user_malloc(4, 0x3000);
	user_free(0x2000);

	expect_loss(blocks_dropped, 1);
	expect(dropped_blocks, 1);
	expect(dropped_frees, 0);
	expect_loss_in(other, blocks_dropped, 1);
	expect_in(other, dropped_blocks, 1);
	expect_in(other, unknown_frees, 1);
}

ACCOUNT_TEST(losses, a_dropped_block_counts_as_freed_when_its_address_is_allocated_again)
{
	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x2000);

	expect_loss(blocks_dropped, 2);
	expect_loss(blocks_replaced, 1);
	expect(dropped_frees, 1);
	expect(dropped_blocks, 1);
	expect(dropped_bytes, 4);

	user_free(0x1000);
	user_malloc(8, 0x2000);
	expect_live(0x2000, 8);
	expect_loss(blocks_replaced, 2);
	expect(dropped_frees, 2);
	expect(dropped_blocks, 0);
}

ACCOUNT_TEST(losses, a_realloc_of_a_dropped_block_frees_it)
{
	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	enter(SHAPE_REALLOC, sp_at(1), 0x2000, 8);
	expect(dropped_blocks, 1);
	leave(SHAPE_REALLOC, sp_at(1), 0x3000);

	expect_loss(blocks_dropped, 2);
	expect(dropped_frees, 1);
	expect(dropped_blocks, 1);
	expect(dropped_bytes, 8);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(losses, a_failed_realloc_of_a_dropped_block_keeps_it)
{
	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_realloc(0x2000, 8, 0);

	expect_loss(blocks_dropped, 1);
	expect(dropped_frees, 0);
	expect(dropped_blocks, 1);
	user_free(0x2000);
	expect(dropped_frees, 1);
	expect(dropped_bytes, 0);
}

/* realloc had freed the dropped block all the same. */
ACCOUNT_TEST(losses, a_dropped_block_is_not_restored_at_an_address_in_use)
{
	have_room_for(2, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);
	user_free(0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x3000, 8);
	thread_run(thread_start(process, 101));
	user_malloc(16, 0x3000);
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(1), 0);

	expect_loss(blocks_dropped, 1);
	expect(dropped_frees, 1);
	expect(dropped_blocks, 0);
	expect_live(0x3000, 16);
}

ACCOUNT_TEST(losses, a_dropped_block_is_restored_when_its_thread_is_killed_during_realloc)
{
	struct target_thread *other = thread_start(process, 101);

	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	thread_run(other);
	enter(SHAPE_REALLOC, sp_at(1), 0x2000, 8);
	thread_exit(other, 9);

	expect_loss(blocks_dropped, 1);
	expect_loss(calls_unreturned, 1);
	expect(dropped_blocks, 1);
	expect(dropped_frees, 0);
}

ACCOUNT_TEST(losses, a_killed_threads_block_is_not_restored_at_the_address_of_a_dropped_block)
{
	struct target_thread *other = thread_start(process, 101);

	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	thread_run(other);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	thread_run(main_thread);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x1000);
	user_free(0x2000);
	thread_exit(other, 9);

	expect_gone(0x1000);
	expect_loss(calls_unreturned, 1);
	expect_loss(blocks_dropped, 1);
	expect(dropped_bytes, 4);
	expect(frees, 2);
}

ACCOUNT_TEST(losses, a_failed_realloc_drops_the_old_block_when_the_map_is_full)
{
	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	thread_run(thread_start(process, 101));
	user_malloc(2, 0x2000);
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(1), 0);

	expect_loss(blocks_dropped, 1);
	expect(dropped_blocks, 1);
	expect(dropped_bytes, 1);
	user_free(0x1000);
	expect(dropped_frees, 1);
}

ACCOUNT_TEST(losses, a_dropped_block_that_cannot_be_noted_is_counted)
{
	have_room_for(1, 1);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);

	expect_loss(blocks_dropped, 2);
	expect_loss(drops_unnoted, 1);
	expect(dropped_blocks, 1);
	expect(dropped_bytes, 2);
	user_free(0x3000);
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(losses, an_exec_forgets_dropped_blocks)
{
	have_room_for(1, 8);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	thread_exec(main_thread);
	user_free(0x2000);

	expect_loss(blocks_dropped, 0);
	expect(dropped_blocks, 0);
	expect(dropped_frees, 0);
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(losses, a_full_block_map_accepts_a_block_after_a_free)
{
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_free(0x1000);
	user_malloc(4, 0x3000);

	expect_live(0x3000, 4);
	expect_loss(blocks_dropped, 1);
}

ACCOUNT_TEST(losses, a_full_block_map_has_room_for_a_realloc_of_its_block)
{
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_malloc(1, 0x1000);
	user_realloc(0x1000, 2, 0x2000);

	expect_live(0x2000, 2);
}

ACCOUNT_TEST(losses, a_full_block_map_replaces_a_block_whose_free_was_missed)
{
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x1000);

	expect_live(0x1000, 2);
	expect_loss(blocks_replaced, 1);
	expect_loss(blocks_dropped, 0);
}

ACCOUNT_TEST(losses, a_kernel_without_memory_drops_blocks)
{
	nursery_use(0);
	user_malloc(1, 0x1000);
	fake.out_of_memory = true;
	user_malloc(2, 0x2000);
	fake.out_of_memory = false;

	expect_gone(0x2000);
	expect_loss(blocks_dropped, 1);
	expect_loss(drops_unnoted, 1);
	expect(current_blocks, 1);
}

ACCOUNT_TEST(losses, a_kernel_without_memory_removes_the_replaced_block_and_drops_the_new_block)
{
	nursery_use(0);
	user_malloc(1, 0x1000);
	fake.out_of_memory = true;
	user_malloc(2, 0x1000);
	fake.out_of_memory = false;

	expect_gone(0x1000);
	expect_loss(blocks_replaced, 1);
	expect_loss(blocks_dropped, 1);
	expect_loss(drops_unnoted, 1);
	expect(current_blocks, 0);
}

ACCOUNT_TEST(losses, a_full_traceback_map_leaves_blocks_without_traceback)
{
	fake_map_resize(&tracebacks, 1);
	stack_is(0x1);
	user_malloc(1, 0x1000);
	stack_is(0x2);
	user_malloc(2, 0x2000);
	stack_is(0x1);
	user_malloc(3, 0x3000);

	expect_live(0x2000, 2);
	expect_same(block_at(0x2000)->traceback, 0, "traceback");
	expect_loss(tracebacks_dropped, 1);
	expect_same(block_at(0x3000)->traceback, block_at(0x1000)->traceback, "traceback");
}

static struct traceback others_traceback;
static __u64 others_hash;
static int looks;

/* Between the look-up of a traceback and its update another thread enters the same one. */
static void other_thread_is_first(const void *map)
{
	if (map != &tracebacks || ++looks != 2)
		return;
	fake.before_map = NULL;
	bpf_map_update_elem(&tracebacks, &others_hash, &others_traceback, BPF_NOEXIST);
}

ACCOUNT_TEST(losses, a_traceback_that_two_threads_add_at_once_is_not_lost)
{
	looks = 0;
	stack_is(0x1);
	user_malloc(1, 0x1000);
	others_hash = block_at(0x1000)->traceback;
	others_traceback = *(struct traceback *)bpf_map_lookup_elem(&tracebacks, &others_hash);
	bpf_map_delete_elem(&tracebacks, &others_hash);
	fake.before_map = other_thread_is_first;
	user_malloc(2, 0x2000);

	expect_same(looks, 2, "looks");
	expect_same(block_at(0x2000)->traceback, others_hash, "traceback");
	expect_loss(tracebacks_dropped, 0);
}

ACCOUNT_TEST(losses, a_thread_without_state_loses_its_calls)
{
	fake.out_of_memory = true;
	enter(SHAPE_MALLOC, sp_at(1), 24);
	fake.out_of_memory = false;

	expect_loss(threads_dropped, 1);
	expect_gone(0x1000);
	user_malloc(8, 0x2000);
	expect_live(0x2000, 8);
}

ACCOUNT_TEST(losses, a_thread_without_state_still_frees_blocks)
{
	user_malloc(24, 0x1000);
	thread_run(thread_start(process, 101));
	fake.out_of_memory = true;
	user_free(0x1000);

	expect_gone(0x1000);
	expect(frees, 1);
}

/* The first argument is where the address of the block will be stored: it may lie in a heap block. */
ACCOUNT_TEST(losses, a_posix_memalign_without_state_frees_nothing)
{
	user_malloc(24, 0x1000);
	thread_run(thread_start(process, 101));
	fake.out_of_memory = true;
	enter(SHAPE_POSIX_MEMALIGN, sp_at(1), 0x1000, 64, 8);
	fake.out_of_memory = false;

	expect_live(0x1000, 24);
	expect_loss(threads_dropped, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(losses, are_counted_for_the_process_that_lost)
{
	struct target_process *other = process_start(200);

	process_admit(other);
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_malloc(1, 0x1000);
	thread_run(thread_start(other, 200));
	user_malloc(2, 0x2000);

	expect_loss(blocks_dropped, 0);
	expect_loss_in(other, blocks_dropped, 1);
	expect_in(other, allocations, 0);
}
