// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdint.h>
#include <string.h>

#include "target.h"

/* When the doorbell rings: for live bytes, and for a process that the OOM killer has chosen. */

extern struct oom_kill oom_kills[OOM_KILLS];
extern __u64 oom_kill_cnt;
int oom_victim(__u64 *ctx);
int memory_groups(struct bpf_iter__task *ctx);

/* ---- live bytes ---- */

ACCOUNT_TEST(rings, once_when_live_bytes_reach_the_threshold)
{
	book_of(process)->ring_at_bytes = 100;
	user_malloc(60, 0x1000);
	user_malloc(39, 0x2000);
	expect_same(fake.ring_cnt, 0, "ring_cnt");
	user_malloc(1, 0x3000);
	expect_same(fake.ring_cnt, 1, "ring_cnt");
	expect_same(fake.rung_for, process->pid, "rung_for");
	expect_same(book_of(process)->ring_at_bytes, 0, "ring_at_bytes");
	user_malloc(1000, 0x4000);
	expect_same(fake.ring_cnt, 1, "ring_cnt");
}

ACCOUNT_TEST(rings, not_for_blocks_that_were_freed)
{
	book_of(process)->ring_at_bytes = 100;
	for (int i = 0; i < 3; i++) {
		user_malloc(60, 0x1000);
		user_free(0x1000);
	}
	expect_same(fake.ring_cnt, 0, "ring_cnt");
}

ACCOUNT_TEST(rings, when_a_realloc_reaches_the_threshold)
{
	book_of(process)->ring_at_bytes = 100;
	user_malloc(60, 0x1000);
	user_realloc(0x1000, 99, 0x2000);
	expect_same(fake.ring_cnt, 0, "ring_cnt");
	user_realloc(0x2000, 100, 0x3000);
	expect_same(fake.ring_cnt, 1, "ring_cnt");
}

ACCOUNT_TEST(rings, never_without_a_threshold)
{
	user_malloc(1UL << 40, 0x1000);
	expect_same(fake.ring_cnt, 0, "ring_cnt");
}

ACCOUNT_TEST(rings, at_the_threshold_of_each_process)
{
	struct target_process *other = process_start(200);

	process_admit(other);
	book_of(other)->ring_at_bytes = 100;
	user_malloc(200, 0x1000);
	expect_same(fake.ring_cnt, 0, "ring_cnt");
	thread_run(thread_start(other, 200));
	user_malloc(100, 0x1000);
	expect_same(fake.rung_for, 200, "rung_for");
}

/* ---- processes that the OOM killer has chosen ---- */

static struct cgroup_subsys_state group[2] = { { .serial_nr = 71 }, { .serial_nr = 72 } };
static struct css_set set[2] = { { .subsys = { &group[0] } }, { .subsys = { &group[1] } } };

static struct target_thread *start_in(int i, pid_t pid)
{
	struct target_thread *thread = thread_start(process_start(pid), pid);

	thread->task.cgroups = &set[i];
	return thread;
}

static void kill_by_oom(struct target_thread *victim)
{
	oom_victim((__u64[]){ (uintptr_t)&victim->task, 0 });
}

ACCOUNT_TEST(oom, victims_are_recorded_with_their_cgroup)
{
	struct target_thread *victim = start_in(1, 200);

	kill_by_oom(victim);
	expect_same(oom_kill_cnt, 1, "oom_kill_cnt");
	expect_same(oom_kills[0].tgid, 200, "tgid");
	expect_same(oom_kills[0].group, 72, "group");
	expect_same(fake.rung_for, 200, "rung_for");
}

ACCOUNT_TEST(oom, victims_are_processes_even_when_the_kernel_reports_a_thread)
{
	struct target_thread *first = start_in(0, 200);

	struct target_thread *second = thread_start(first->process, 201);

	second->task.cgroups = &set[0];
	kill_by_oom(second);
	expect_same(oom_kills[0].tgid, 200, "tgid");
}

ACCOUNT_TEST(oom, the_latest_victims_are_kept)
{
	struct target_thread *victim[2] = { start_in(0, 200), start_in(1, 300) };

	for (int i = 0; i <= OOM_KILLS; i++)
		kill_by_oom(victim[i == OOM_KILLS]);
	expect_same(oom_kill_cnt, OOM_KILLS + 1, "oom_kill_cnt");
	expect_same(oom_kills[0].group, 72, "group");
	expect_same(oom_kills[1].group, 71, "group");
}

static void walk(struct target_thread *thread)
{
	struct bpf_iter_meta meta = {};

	memory_groups(&(struct bpf_iter__task){ .meta = &meta, .task = thread ? &thread->task : NULL });
}

ACCOUNT_TEST(oom, cgroups_are_listed_for_processes_and_not_for_threads)
{
	struct target_thread *first = start_in(0, 200), *other = start_in(1, 300);
	struct oom_kill found[2];

	walk(first);
	walk(thread_start(first->process, 201));
	walk(other);
	walk(NULL);
	cr_assert(fake.seq_bytes == sizeof(found));
	memcpy(found, fake.seq, sizeof(found));
	cr_expect(found[0].tgid == 200 && found[0].group == 71);
	cr_expect(found[1].tgid == 300 && found[1].group == 72);
}

ACCOUNT_TEST(exit, of_an_oom_victim_is_marked)
{
	process->signal.group_exit_code = 9;
	process->signal.oom_mm = &process->mm;
	thread_exit(main_thread, 9);
	expect_same(book_of(process)->is_oom_victim, 1, "is_oom_victim");
}

ACCOUNT_TEST(exit, of_a_process_killed_otherwise_is_not_marked_as_oom)
{
	process->signal.group_exit_code = 9;
	thread_exit(main_thread, 9);
	expect_same(book_of(process)->is_oom_victim, 0, "is_oom_victim");
}

/* Times when nothing is recorded, and what comes after them. */

int process_pause(struct process_request *args), process_return(struct process_request *args),
	process_resume(struct process_request *args);

extern __u64 shared_paused, shared_resumed_ns;

static struct uprobe_task utask;
static struct process_request request = { .slot = 0 }; /* of the process that each test begins with */

static void gap_begins(void)
{
	cr_assert_eq(process_pause(&request), 0);
}

static void gap_ends(void)
{
	cr_assert_eq(process_return(&request), 0);
	cr_assert_eq(process_resume(&request), 0);
}

ACCOUNT_TEST(gap, records_nothing)
{
	user_malloc(1, 0x1000);
	gap_begins();
	user_malloc(2, 0x2000);
	user_free(0x1000);
	user_free(0x3000);
	expect(allocations, 1);
	expect(frees, 0);
	expect(unknown_frees, 0);
	gap_ends();
	user_malloc(4, 0x4000);
	expect(allocations, 2);
	user_free(0x2000);
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(gap, explains_the_replacement_of_a_block_from_before_it)
{
	user_malloc(1, 0x1000);
	user_malloc(1, 0x2000);
	gap_begins();
	gap_ends();
	user_malloc(2, 0x1000);
	expect_loss(blocks_gone_in_gap, 1);
	expect_loss(blocks_replaced, 0);
	user_malloc(2, 0x3000);
	user_malloc(4, 0x3000);
	expect_loss(blocks_gone_in_gap, 1);
	expect_loss(blocks_replaced, 1);
	expect_live(0x1000, 2);
	expect_live(0x3000, 4);
}

/* The stack still looks as if the call waited for its return, but the kernel has ended the wait. */
ACCOUNT_TEST(gap, ends_the_pending_calls)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	gap_begins();
	gap_ends();
	enter(SHAPE_MALLOC, sp_at(3), 16);
	leave(SHAPE_MALLOC, sp_at(3), 0x1000);
	expect_loss(calls_unreturned, 1);
	expect(nested_calls, 0);
	expect_live(0x1000, 16);
}

ACCOUNT_TEST(gap, may_be_shorter_than_a_call)
{
	struct return_instance instance = { .stack = sp_at(1), .orig_ret_vaddr = fake.frame[0] };

	enter(SHAPE_MALLOC, sp_at(1), 8);
	utask.return_instances = &instance;
	main_thread->task.utask = &utask;
	gap_begins();
	gap_ends();
	enter(SHAPE_MALLOC, sp_at(3), 16); /* inside it */
	if (returns_are_probed()) { /* without a sign of the gap the call counts as nested, which does no harm */
		expect_loss(calls_unreturned, 1);
		return;
	}
	expect(nested_calls, 1);
	expect_loss(calls_unreturned, 0);
	utask.return_instances = NULL;
	enter(SHAPE_MALLOC, sp_at(3), 16);
	leave(SHAPE_MALLOC, sp_at(3), 0x1000);
	expect_loss(calls_unreturned, 1);
	expect_live(0x1000, 16);
}

/* The return could belong to another call, so it is not matched. */
ACCOUNT_TEST(gap, does_not_match_a_return_to_a_call_from_before)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	gap_begins();
	gap_ends();
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	expect_gone(0x1000);
	user_malloc(4, 0x2000);
	expect_loss(calls_unreturned, 1);
	expect_live(0x2000, 4);
}

/* While probes are placed again: a call is noted before the accounting is open. */
ACCOUNT_TEST(gap, tracks_calls_while_probes_are_placed_again)
{
	gap_begins();
	process_return(&request);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	process_resume(&request);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	expect_live(0x1000, 8);
}

/* The moved block is not recorded: a free of it in the gap would not be seen. */
ACCOUNT_TEST(gap, frees_the_block_of_a_realloc_that_moves)
{
	user_malloc(1, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	gap_begins();
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	expect(frees, 1);
	expect_gone(0x1000);
	expect_gone(0x2000);
	gap_ends();
	user_malloc(4, 0x2000);
	expect_loss(blocks_replaced, 0);
}

ACCOUNT_TEST(gap, restores_the_block_of_a_realloc_that_fails)
{
	user_malloc(1, 0x1000);
	gap_begins();
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	leave(SHAPE_REALLOC, sp_at(1), 0);
	expect_live(0x1000, 1);
	expect(failed_calls, 0);
	gap_ends();
}

/* Perf uprobes trap for seconds while they go: a block from before is not followed from one to the next. */
ACCOUNT_TEST(gap, records_no_new_block_of_a_realloc)
{
	user_malloc(1, 0x1000);
	gap_begins();
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	user_free(0x2000);
	gap_ends();
	expect(allocations, 1);
	expect(current_blocks, 0);
	expect_gone(0x2000);
}

ACCOUNT_TEST(gap, ends_a_pending_realloc_as_successful)
{
	user_malloc(1, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	gap_begins();
	gap_ends();
	user_malloc(4, 0x3000);
	expect_loss(calls_unreturned, 1);
	expect(frees, 1);
	expect_gone(0x1000);
}

ACCOUNT_TEST(gap, of_all_processes_includes_processes_that_are_forked_during_it)
{
	struct target_thread *child;

	book_of(process)->follows = 1;
	user_malloc(1, 0x1000);
	shared_paused = 1;
	user_malloc(2, 0x2000);
	child = thread_fork(200);
	thread_run(child);
	user_malloc(4, 0x1000);
	expect_in(child->process, allocations, 0);
	shared_resumed_ns = ++fake.now_ns;
	shared_paused = 0;
	user_malloc(8, 0x2000);
	expect_in(child->process, allocations, 1);
	thread_run(main_thread);
	user_malloc(2, 0x1000);
	expect(allocations, 2);
	expect_loss(blocks_gone_in_gap, 1);
}

ACCOUNT_TEST(gap, of_a_process_that_does_not_exist_is_refused)
{
	struct process_request nobody = { .slot = PROCESSES_MAX };

	cr_expect_eq(process_pause(&nobody), -ESRCH);
	cr_expect_eq(process_return(&nobody), -ESRCH);
	cr_expect_eq(process_resume(&nobody), -ESRCH);
}
