// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Followed children: the process that each of their calls counts for. */
#include "target.h"
#include <bpf/bpf_helpers.h>
#include <string.h>

static void follow(void)
{
	book_of(process)->follows = 1;
}

ACCOUNT_TEST(fork, is_not_followed_unless_asked)
{
	struct target_thread *child = thread_fork(200);

	cr_expect(!book_of(child->process));
	cr_expect_eq(fake.ring_cnt, 0);
}

ACCOUNT_TEST(fork, gives_the_child_its_own_accounting)
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

ACCOUNT_TEST(fork, records_the_parent_of_the_child)
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

ACCOUNT_TEST(fork, frees_of_blocks_of_the_parent_are_counted_as_inherited)
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

ACCOUNT_TEST(fork, frees_are_not_inherited_after_an_exec)
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

ACCOUNT_TEST(fork, follows_children_of_children)
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

ACCOUNT_TEST(fork, of_a_thread_creates_no_child_process)
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

ACCOUNT_TEST(fork, uses_no_slot_that_is_occupied)
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

ACCOUNT_TEST(fork, does_not_reuse_the_accounting_of_an_exited_process_with_its_pid)
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
	user_malloc(8, 0x2000); /* in a process without accounting */

	expect_loss(processes_dropped, 1);
	cr_expect_eq(block_cnt(), 1);
}

ACCOUNT_TEST(fork, during_a_call_leaves_the_call_with_the_parent)
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

/* The kernel has passed over the end of the one that had the PID before. */
static struct target_thread *end_unseen(struct target_thread *thread)
{
	thread->process->pid = 0;
	fake.now_ns += 1000;
	thread_run(main_thread);
	return thread_fork(200);
}

ACCOUNT_TEST(missed, end_does_not_record_the_next_process_with_the_pid)
{
	struct target_process *other = process_start(200);
	struct target_thread *child;
	struct process *account;

	follow();
	child = thread_fork(200);
	thread_run(child);
	user_malloc(8, 0x1000);
	account = book_of(child->process);
	child->process->pid = 0;
	other->started_ns = fake.now_ns + 1000;
	thread_run(thread_start(other, 200)); /* no event has reported it */
	user_malloc(16, 0x2000);
	user_free(0x1000);

	expect_same(account->counter[COUNTER_allocations], 1, "allocations");
	expect_same(account->counter[COUNTER_frees], 0, "frees");
}

ACCOUNT_TEST(missed, end_is_detected_when_the_pid_is_reused)
{
	struct target_thread *child;
	struct process *account;

	follow();
	child = thread_fork(200);
	thread_run(child);
	user_malloc(8, 0x1000);
	account = book_of(child->process);
	child = end_unseen(child);
	expect_same(account->loss[LOSS_ends_missed], 1, "ends_missed");
	expect_same(account->exit_ns, child->process->started_ns, "exit_ns");
	cr_assert(book_of(child->process) && book_of(child->process) != account);
	thread_run(child);
	user_malloc(16, 0x1000);

	expect_in(child->process, current_bytes, 16);
	expect_same(account->counter[COUNTER_current_bytes], 8, "current_bytes");
	expect_loss(processes_dropped, 0);
}

ACCOUNT_TEST(missed, exec_starts_a_new_accounting_at_the_first_call_of_a_thread)
{
	struct target_thread *child;

	follow();
	child = thread_fork(200);
	thread_exec_unseen(child);
	user_free(0x1000);

	expect_loss_in(child->process, execs_missed, 1);
	expect_same(book_of(child->process)->exec_cnt, 1, "exec_cnt");
	expect_in(child->process, inherited_frees, 0);
	expect_in(child->process, unknown_frees, 1);
}

ACCOUNT_TEST(missed, exec_is_detected_within_128_calls)
{
	__u64 image = book_of(process)->image;

	user_malloc(8, 0x1000);
	thread_exec_unseen(main_thread);
	for (int i = 0; i < 128; i++)
		user_malloc(8, 0x2000 + 16 * i);

	cr_expect(book_of(process)->image != image);
	expect_loss(execs_missed, 1);
	expect_same(book_of(process)->exec_cnt, 1, "exec_cnt");
	expect_gone(0x1000);
}

/* A vforked child has its own memory from its exec on. */
ACCOUNT_TEST(missed, exec_of_a_vforked_child_ends_counting_for_the_parent)
{
	struct target_thread *child;

	follow();
	child = thread_vfork(200);
	thread_exec_unseen(child);
	user_malloc(16, 0x2000);

	expect_gone(0x2000);
	expect_in(child->process, current_bytes, 16);
	expect_loss_in(child->process, execs_missed, 1);
}

/* The loader admits a process without knowing its execs. */
ACCOUNT_TEST(missed, exec_is_not_reported_when_the_exec_count_is_unknown)
{
	process->exec_nr = 7;
	thread_run(main_thread);
	user_malloc(8, 0x1000);
	expect_live(0x1000, 8);
	expect_same(book_of(process)->exec_id, 8, "exec_id");
	expect_loss(execs_missed, 0);
}

/* ---- vfork ---- */

ACCOUNT_TEST(vfork, child_counts_for_its_parent_until_exec)
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

ACCOUNT_TEST(vfork, of_a_vforked_child_counts_for_the_first_parent)
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

ACCOUNT_TEST(vfork, child_that_exits_during_a_call_is_a_loss_of_the_parent)
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

/* ---- a child in the memory of a parent that is gone ---- */

static struct target_thread *child_of_another(void)
{
	struct target_thread *parent, *child;

	follow();
	parent = thread_fork(200);
	thread_run(parent);
	user_malloc(8, 0x1000);
	child = thread_vfork(300);
	thread_run(child);
	user_malloc(8, 0x2000);
	expect_in(parent->process, allocations, 2);
	return child;
}

static void expect_ownerless(struct target_thread *child)
{
	thread_run(child);
	user_malloc(16, 0x3000);
	user_free(0x1000);
	expect_loss_in(child->process, calls_ownerless, 2);
}

ACCOUNT_TEST(ownerless, calls_are_not_recorded_after_the_parent_has_exited)
{
	struct target_thread *child = child_of_another();

	thread_exit((struct target_thread *)process_by_pid(200)->main_thread, 0);
	expect_ownerless(child);
	cr_expect_eq(block_cnt(), 2);
}

ACCOUNT_TEST(ownerless, calls_are_not_recorded_for_the_next_process_with_the_parents_pid)
{
	struct target_thread *child = child_of_another();
	struct target_process *next = process_start(400);

	memset(book_of(process_by_pid(200)), 0, sizeof(struct process)); /* as the loader frees a slot */
	bpf_map_delete_elem(&process_slots, &(__u32){ 200 });
	process_by_pid(200)->pid = 0;
	next->pid = 200;
	next->started_ns = 5000;
	process_admit(next);
	thread_run(thread_start(next, 200));
	user_malloc(4, 0x1000);
	expect_ownerless(child);
	expect_in(next, current_bytes, 4);
	expect_in(next, allocations, 1);
	expect_in(next, unknown_frees, 0);
}

ACCOUNT_TEST(ownerless, calls_are_not_recorded_for_the_next_program_of_the_parent)
{
	struct target_thread *child = child_of_another();
	struct target_process *parent = process_by_pid(200);

	thread_exec((struct target_thread *)parent->main_thread);
	expect_ownerless(child);
	expect_in(parent, allocations, 0);
	expect_in(parent, unknown_frees, 0);
}

ACCOUNT_TEST(ownerless, calls_do_not_arise_when_the_parents_traces_are_cleared)
{
	struct target_thread *child = child_of_another();
	struct target_process *parent = process_by_pid(200);

	clear_begin(parent);
	cr_assert_eq(clear_end(parent), 0);
	thread_run(child);
	user_malloc(16, 0x3000);
	expect_in(parent, current_bytes, 16);
	expect_loss_in(child->process, calls_ownerless, 0);
}
