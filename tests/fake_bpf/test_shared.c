// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Children in the memory of a process that does not follow its children. */
#include "target.h"

int memory_shared(unsigned long long *ctx), sharer_prepares_exec(void *ctx), sharer_exits(void *ctx);

extern volatile bool sharers_by_tracepoints;
extern unsigned int sharers_untold;
extern bool fake_lacks_fields;

#define CLONE_VM 0x100
#define CLONE_THREAD 0x10000

static struct uprobe_task utask;

/* The kernel has made it a child of the main thread, in the same memory. */
static struct target_thread *begin_child(__u64 flags)
{
	struct target_thread *child = thread_vfork(200);
	unsigned long long ctx[2] = { (unsigned long)&child->task, flags };

	child->task.real_parent = &main_thread->task;
	memory_shared(ctx);
	return child;
}

static void begin_exec(struct target_thread *child)
{
	thread_run(child);
	sharer_prepares_exec(NULL);
	thread_run(main_thread);
}

static void expect_sharers(__u64 sharers, __u64 lost)
{
	expect_same(book_of(process)->sharers, sharers, "sharers");
	expect_loss(children_unrecorded, lost);
}

BOOK_TEST(shared, child_that_hits_no_probe_is_no_loss)
{
	struct target_thread *child = begin_child(CLONE_VM);

	expect_sharers(1, 0);
	begin_exec(child);
	expect_sharers(0, 0);
}

BOOK_TEST(shared, child_that_hits_a_probe_is_a_loss)
{
	struct target_thread *child = begin_child(CLONE_VM);

	child->task.utask = &utask;
	begin_exec(child);
	expect_sharers(0, 1);
}

BOOK_TEST(shared, child_that_ends_without_exec_is_settled)
{
	struct target_thread *child = begin_child(CLONE_VM);

	sharers_by_tracepoints = true;
	child->task.utask = &utask;
	thread_exit(child, 0);
	thread_run(main_thread);
	expect_sharers(0, 1);
}

BOOK_TEST(shared, child_is_not_counted_where_its_end_comes_too_late)
{
	sharers_by_tracepoints = fake_lacks_fields = true;
	begin_child(CLONE_VM);
	fake_lacks_fields = false;
	expect_sharers(0, 0);
	expect_same(sharers_untold, 1, "untold");
}

BOOK_TEST(shared, child_is_counted_where_functions_of_an_old_kernel_tell)
{
	struct target_thread *child;

	fake_lacks_fields = true;
	child = begin_child(CLONE_VM);
	fake_lacks_fields = false;
	child->task.utask = &utask;
	thread_run(child);
	sharer_exits(NULL);
	child->task.utask = NULL;
	child->task.mm = NULL;
	thread_exit(child, 0);
	thread_run(main_thread);
	expect_sharers(0, 1);
	expect_same(sharers_untold, 0, "untold");
}

BOOK_TEST(shared, child_from_before_the_recording_is_not_subtracted)
{
	struct target_thread *child = thread_vfork(200);

	child->task.real_parent = &main_thread->task;
	begin_exec(child);
	expect_sharers(0, 0);
}

BOOK_TEST(shared, threads_and_children_in_memory_of_their_own_are_not_counted)
{
	begin_child(CLONE_VM | CLONE_THREAD);
	expect_sharers(0, 0);
	begin_child(0)->task.mm = &main_thread->process->mm;
	expect_sharers(0, 0);
}

BOOK_TEST(shared, child_with_memory_of_its_own_does_not_end_anothers)
{
	struct target_thread *forked = thread_fork(300);

	begin_child(CLONE_VM);
	forked->task.real_parent = &main_thread->task;
	begin_exec(forked);
	expect_sharers(1, 0);
}

BOOK_TEST(shared, children_of_the_program_before_do_not_count)
{
	struct target_thread *child = begin_child(CLONE_VM);

	main_thread->task.mm = NULL; /* exec has given it another one */
	thread_exec(main_thread);
	child->task.utask = &utask;
	child->task.mm = (void *)&utask;
	begin_exec(child);
	expect_sharers(0, 0);
}
