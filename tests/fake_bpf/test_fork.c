// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Children that are followed: whose books they have, and what is not in them. */
#include "target.h"
#include <string.h>

static void follow(void)
{
	book_of(process)->follows = 1;
}

BOOK_TEST(fork, is_not_followed_unless_asked)
{
	struct target_thread *child = thread_fork(200);

	cr_expect(!book_of(child->process));
	cr_expect_eq(fake.ring_cnt, 0);
}

BOOK_TEST(fork, gives_the_child_books_of_its_own)
{
	struct target_thread *child;

	follow();
	user_malloc(8, 0x1000);
	child = thread_fork(200);
	thread_run(child);
	user_malloc(16, 0x1000);

	expect_live(0x1000, 8);
	cr_expect(block_of(child->process, 0x1000)->size == 16);
	cr_expect(book_of(child->process)->image > book_of(process)->image);
	expect_in(child->process, current_bytes, 16);
	expect(current_bytes, 8);
}

BOOK_TEST(fork, says_whose_child_it_is)
{
	struct target_thread *child;

	follow();
	strcpy(fake.comm, "parent");
	fake.now_ns = 777;
	child = thread_fork(200);

	expect_same(book_of(child->process)->parent, 100, "parent");
	expect_same(book_of(child->process)->forked_ns, 777, "forked_ns");
	expect_same(book_of(child->process)->start_boottime_ns, 777, "start_boottime_ns");
	cr_expect_str_eq(book_of(child->process)->comm, "parent");
	expect_same(book_of(child->process)->is_open, 1, "is_open");
	expect_same(book_of(child->process)->by_ret, book_of(process)->by_ret, "by_ret");
	cr_expect_eq(fake.rung_for, 200);
}

BOOK_TEST(fork, frees_of_what_came_with_it_are_inherited)
{
	struct target_thread *child;

	follow();
	user_malloc(8, 0x1000);
	user_malloc(8, 0x2000);
	child = thread_fork(200);
	thread_run(child);
	user_free(0x1000);
	user_realloc(0x2000, 16, 0x3000);

	expect_in(child->process, inherited_frees, 2);
	expect_in(child->process, unknown_frees, 0);
	expect_in(child->process, frees, 0);
	expect_live(0x1000, 8);
	expect_live(0x2000, 8);
}

BOOK_TEST(fork, after_an_exec_nothing_is_inherited)
{
	struct target_thread *child;

	follow();
	child = thread_fork(200);
	thread_exec(child);
	user_free(0x1000);

	expect_in(child->process, inherited_frees, 0);
	expect_in(child->process, unknown_frees, 1);
	expect_same(book_of(child->process)->exec_cnt, 1, "exec_cnt");
}

BOOK_TEST(fork, children_of_children_are_followed)
{
	struct target_thread *child, *grandchild;

	follow();
	child = thread_fork(200);
	thread_run(child);
	grandchild = thread_fork(300);
	thread_run(grandchild);
	user_malloc(8, 0x1000);

	expect_same(book_of(grandchild->process)->parent, 200, "parent");
	cr_expect(block_of(grandchild->process, 0x1000));
}

BOOK_TEST(fork, a_new_thread_is_no_child)
{
	unsigned long long ctx[2];
	struct target_thread *thread = thread_start(process, 101);
	int process_fork(unsigned long long *ctx);

	follow();
	ctx[0] = (__u64)&main_thread->task;
	ctx[1] = (__u64)&thread->task;
	process_fork(ctx);
	cr_expect_eq(fake_map_count(&process_slots), 1);
	cr_expect_eq(fake.ring_cnt, 0);
}

BOOK_TEST(fork, takes_no_slot_that_is_taken)
{
	struct target_thread *child;

	follow();
	next_slot = 0; /* the parent's */
	child = thread_fork(200);
	thread_run(child);
	user_malloc(8, 0x1000);
	cr_expect_eq(book_of(process)->counter[COUNTER_allocations], 0);
	cr_expect_eq(book_of(child->process)->counter[COUNTER_allocations], 1);
}

BOOK_TEST(fork, does_not_take_the_books_of_one_that_ended_with_its_pid)
{
	struct target_thread *child;

	follow();
	child = thread_fork(200);
	thread_run(child);
	user_malloc(8, 0x1000);
	thread_exit(child, 0);
	thread_run(main_thread);
	child->process->pid = 0; /* the kernel has forgotten it */
	thread_run(thread_fork(200));
	user_malloc(8, 0x2000); /* of a process without books */

	expect_loss(processes_dropped, 1);
	cr_expect_eq(block_cnt(), 1);
}

BOOK_TEST(fork, of_a_thread_in_a_call_leaves_the_call_with_the_parent)
{
	struct target_thread *child;

	follow();
	enter(SHAPE_MALLOC, sp_at(5), 8);
	child = thread_fork(200);
	leave(SHAPE_MALLOC, sp_at(5), 0x1000);
	thread_run(child);
	user_malloc(16, 0x2000);

	expect_live(0x1000, 8);
	cr_expect(block_of(child->process, 0x2000)->size == 16);
	expect_in(child->process, nested_calls, 0);
}

/* ---- vfork ---- */

BOOK_TEST(vfork, until_its_exec_the_books_are_its_parents)
{
	struct target_thread *child;

	follow();
	user_malloc(8, 0x1000);
	child = thread_vfork(200);
	thread_run(child);
	user_free(0x1000);
	user_malloc(16, 0x2000);

	expect_gone(0x1000);
	expect_live(0x2000, 16);
	expect(frees, 1);
	expect(unknown_frees, 0);
	expect_same(book_of(child->process)->memory_of, 100, "memory_of");
	expect_in(child->process, allocations, 0);

	thread_exec(child);
	user_malloc(32, 0x1000);
	expect_gone(0x1000);
	expect_in(child->process, current_bytes, 32);
	expect_same(book_of(child->process)->memory_of, 0, "memory_of");
}

BOOK_TEST(vfork, of_a_vforked_child_is_in_the_same_memory)
{
	struct target_thread *child, *grandchild;

	follow();
	child = thread_vfork(200);
	thread_run(child);
	grandchild = thread_vfork(300);
	grandchild->task.mm = child->task.mm;
	thread_run(grandchild);
	user_malloc(8, 0x1000);

	expect_same(book_of(grandchild->process)->memory_of, 100, "memory_of");
	expect_live(0x1000, 8);
}

BOOK_TEST(vfork, a_call_cut_off_is_its_parents)
{
	struct target_thread *child;

	follow();
	user_malloc(8, 0x1000);
	child = thread_vfork(200);
	thread_run(child);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	thread_exit(child, 0);

	expect_live(0x1000, 8);
	expect_loss(calls_unreturned, 1);
	expect_loss_in(child->process, calls_unreturned, 0);
}
