// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The share of one process in the room for blocks, notes, tracebacks and processes; the rest is for the others. */
#include "target.h"
#include "ranges.h"
#include <bpf/bpf_helpers.h>
#include <string.h>

extern __u64 blocks_most, notes_most, tracebacks_most, tracebacks_held;
extern __u32 user_slots[USERS_MAX], slots_taken_nr;
extern __u64 admissions_dropped;
extern volatile struct rules rules; /* see bpf_process.c */

static struct target_thread *neighbour(void)
{
	struct target_process *other = process_start(200);

	process_admit(other);
	return thread_start(other, 200);
}

BOOK_TEST(shares, drop_and_note_blocks_beyond_the_share)
{
	struct target_thread *other = neighbour();

	blocks_most = 2;
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);
	expect_gone(0x3000);
	expect_loss(blocks_dropped, 1);
	expect(allocations, 2);
	expect(dropped_bytes, 4);
	user_free(0x3000);
	expect(dropped_frees, 1);
	expect(unknown_frees, 0);

	thread_run(other);
	user_malloc(8, 0x1000);
	cr_expect(block_of(other->process, 0x1000));
	expect_in(other->process, allocations, 1);
}

BOOK_TEST(shares, have_room_again_after_a_free)
{
	blocks_most = 1;
	user_malloc(1, 0x1000);
	user_free(0x1000);
	user_malloc(2, 0x2000);
	expect_live(0x2000, 2);
	expect(allocations, 2);
}

/* A block beyond the share is not kept in the nursery either. */
BOOK_TEST(shares, limit_blocks_in_the_nursery)
{
	nursery_use(64);
	blocks_most = 1;
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	expect_loss(blocks_dropped, 1);
	expect_gone(0x2000);
	cr_expect_eq(block_cnt(), 1);
}

/* The block that lay there was freed, room or none. */
BOOK_TEST(shares, remove_the_old_block_at_the_address_of_a_refused_block)
{
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	blocks_most = 1;
	user_malloc(4, 0x2000);
	expect_loss(blocks_replaced, 1);
	expect_loss(blocks_dropped, 1);
	expect_gone(0x2000);
	expect(current_bytes, 1);
	expect(dropped_bytes, 4);
}

/* A realloc frees first; one that fails has its block back, however small the share has become. */
BOOK_TEST(shares, allow_a_realloc_within_the_share)
{
	blocks_most = 1;
	user_malloc(1, 0x1000);
	user_realloc(0x1000, 2, 0x2000);
	expect_live(0x2000, 2);
	blocks_most = 0;
	user_realloc(0x2000, 4, 0);
	expect_live(0x2000, 2);
	expect(current_blocks, 1);
}

BOOK_TEST(shares, limit_mappings)
{
	blocks_most = 1;
	user_mmap(PAGE, MAP);
	user_mmap(PAGE, MAP + PAGE);
	expect_mapped(MAP, PAGE);
	expect_unmapped(MAP + PAGE);
	expect_loss(blocks_dropped, 1);
	expect_loss(drops_unnoted, 1);
	user_mmap(PAGE, MAP); /* MAP_FIXED unmaps what it covers; then there is room only for the next */
	expect(frees, 1);
	expect_loss(blocks_dropped, 2);
	user_mmap(PAGE, MAP);
	expect_mapped(MAP, PAGE);
	expect_loss(drops_unnoted, 2);
}

BOOK_TEST(shares, allow_a_mapping_to_be_split_beyond_the_share)
{
	user_mmap(3 * PAGE, MAP);
	blocks_most = 1;
	user_munmap(MAP + PAGE, PAGE);
	expect_mapped(MAP, PAGE);
	expect_mapped(MAP + 2 * PAGE, PAGE);
}

BOOK_TEST(shares, limit_notes_of_dropped_blocks)
{
	struct target_thread *other = neighbour();

	blocks_most = 0;
	notes_most = 2;
	fake_map_resize(&dropped_blocks, 3);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_malloc(4, 0x3000);
	expect_loss(blocks_dropped, 3);
	expect_loss(drops_unnoted, 1);
	expect(dropped_blocks, 2);
	expect(dropped_bytes, 3);

	thread_run(other);
	user_malloc(8, 0x1000);
	user_free(0x1000);
	expect_loss_in(other->process, blocks_dropped, 1);
	expect_in(other->process, dropped_frees, 1);
}

BOOK_TEST(shares, limit_tracebacks)
{
	struct target_thread *other = neighbour();

	tracebacks_most = 1;
	stack_is(0x10001);
	user_malloc(1, 0x1000);
	stack_is(0x10002);
	user_malloc(2, 0x2000);
	expect_loss(tracebacks_dropped, 1);
	stack_is(0x10001); /* known already */
	user_malloc(4, 0x3000);
	expect_live(0x3000, 4);
	cr_expect(traceback_at(0x3000) == traceback_at(0x1000) && !traceback_at(0x2000));
	expect_loss(tracebacks_dropped, 1);

	thread_run(other);
	stack_is(0x10002);
	user_malloc(8, 0x1000);
	cr_expect(block_of(other->process, 0x1000)->traceback);
	cr_expect_eq(book_of(process)->tracebacks, 1);
	cr_expect_eq(book_of(other->process)->tracebacks, 1);
	cr_expect_eq(tracebacks_held, 2);
}

/* Tracebacks of the earlier image count for that image until the loader removes them from the map. */
BOOK_TEST(shares, start_with_no_tracebacks_in_a_new_image)
{
	stack_is(0x10001);
	user_malloc(1, 0x1000);
	thread_exec(main_thread);
	cr_expect_eq(book_of(process)->tracebacks, 0);
	cr_expect_eq(tracebacks_held, 1);
}

/* The loader may subtract from a number that an exec has just set to 0. */
BOOK_TEST(shares, allow_tracebacks_when_the_count_has_become_negative)
{
	tracebacks_most = 1;
	book_of(process)->tracebacks = -1ULL;
	user_malloc(1, 0x1000);
	cr_expect(traceback_at(0x1000));
}

/* ---- slots ---- */

static struct target_thread *newcomer_of(pid_t pid, __u32 uid)
{
	struct target_thread *thread = thread_start(process_start(pid), pid);

	thread->process->cred.uid.val = uid;
	strcpy(thread->task.comm, "shopd");
	return thread;
}

static void admit_all(void)
{
	rules.everyone = 1;
	rules.by_ret = returns_are_probed();
	rules.nr = 0;
}

/* As if the user, and others, had so many. */
static void slots_are_taken(const struct target_thread *by, __u32 own, __u32 others)
{
	user_slots[book_of(by->process)->user] = own;
	slots_taken_nr = own + others;
}

BOOK_TEST(shares, limit_slots_of_each_user)
{
	struct target_thread *first = newcomer_of(200, 7);

	admit_all();
	thread_exec(first);
	slots_are_taken(first, PROCESSES_MAX / 4 * 3, 0);
	thread_exec(newcomer_of(201, 7));
	cr_expect_eq(admissions_dropped, 1);
	thread_exec(newcomer_of(202, 8));
	cr_expect_eq(admissions_dropped, 1);
	cr_expect(book_of(process_by_pid(202)));
}

BOOK_TEST(shares, leave_some_slots_free_for_other_users)
{
	struct target_thread *first = newcomer_of(200, 7);

	admit_all();
	thread_exec(first);
	slots_are_taken(first, 10, PROCESSES_MAX - 10 - 4);
	thread_exec(newcomer_of(201, 7)); /* 10 of its own, 4 free */
	cr_expect_eq(admissions_dropped, 0);
	thread_exec(newcomer_of(202, 7)); /* 11, and 3 */
	cr_expect_eq(admissions_dropped, 1);
	thread_exec(newcomer_of(203, 8));
	cr_expect_eq(admissions_dropped, 1);
}

BOOK_TEST(shares, count_a_child_without_a_slot_as_a_loss_of_its_parent)
{
	struct target_thread *first = newcomer_of(200, 7);

	admit_all();
	thread_exec(first);
	slots_are_taken(first, PROCESSES_MAX / 4 * 3, 0);
	thread_run(first);
	cr_expect(!book_of(thread_fork(201)->process));
	expect_loss_in(first->process, processes_dropped, 1);
}

BOOK_TEST(shares, release_the_slot_of_an_exited_process)
{
	struct target_thread *first = newcomer_of(200, 7);
	__u32 taken, user;

	admit_all();
	thread_exec(first);
	taken = slots_taken_nr;
	user = book_of(first->process)->user;
	cr_expect_eq(user_slots[user], 1);
	thread_run(first);
	user_malloc(1, 0x1000);
	user_free(0x1000);
	rules.min_bytes = 100;
	thread_exit(first, 0); /* with so little that nothing is left to be seen */
	cr_expect_eq(user_slots[user], 0);
	cr_expect_eq(slots_taken_nr, taken - 1);
}
