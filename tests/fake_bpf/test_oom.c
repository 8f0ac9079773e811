// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When the doorbell rings: for live bytes, and for a process that the OOM killer has chosen. */
#include "target.h"
#include <stdint.h>
#include <string.h>

extern struct oom_kill oom_kills[OOM_KILLS];
extern __u64 oom_kill_cnt;
int oom_victim(__u64 *ctx);
int memory_groups(struct bpf_iter__task *ctx);

/* ---- live bytes ---- */

BOOK_TEST(rings, once_when_live_bytes_reach_the_threshold)
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

BOOK_TEST(rings, not_for_blocks_that_were_freed)
{
	book_of(process)->ring_at_bytes = 100;
	for (int i = 0; i < 3; i++) {
		user_malloc(60, 0x1000);
		user_free(0x1000);
	}
	expect_same(fake.ring_cnt, 0, "ring_cnt");
}

BOOK_TEST(rings, when_a_realloc_reaches_the_threshold)
{
	book_of(process)->ring_at_bytes = 100;
	user_malloc(60, 0x1000);
	user_realloc(0x1000, 99, 0x2000);
	expect_same(fake.ring_cnt, 0, "ring_cnt");
	user_realloc(0x2000, 100, 0x3000);
	expect_same(fake.ring_cnt, 1, "ring_cnt");
}

BOOK_TEST(rings, never_without_a_threshold)
{
	user_malloc(1UL << 40, 0x1000);
	expect_same(fake.ring_cnt, 0, "ring_cnt");
}

BOOK_TEST(rings, at_the_threshold_of_each_process)
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

BOOK_TEST(oom, victims_are_recorded_with_their_cgroup)
{
	struct target_thread *victim = start_in(1, 200);

	kill_by_oom(victim);
	expect_same(oom_kill_cnt, 1, "oom_kill_cnt");
	expect_same(oom_kills[0].tgid, 200, "tgid");
	expect_same(oom_kills[0].group, 72, "group");
	expect_same(fake.rung_for, 200, "rung_for");
}

BOOK_TEST(oom, victims_are_processes_even_when_the_kernel_reports_a_thread)
{
	struct target_thread *first = start_in(0, 200);

	struct target_thread *second = thread_start(first->process, 201);

	second->task.cgroups = &set[0];
	kill_by_oom(second);
	expect_same(oom_kills[0].tgid, 200, "tgid");
}

BOOK_TEST(oom, the_latest_victims_are_kept)
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

BOOK_TEST(oom, cgroups_are_listed_for_processes_and_not_for_threads)
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

BOOK_TEST(exit, of_an_oom_victim_is_marked)
{
	process->signal.group_exit_code = 9;
	process->signal.oom_mm = &process->mm;
	thread_exit(main_thread, 9);
	expect_same(book_of(process)->is_oom_victim, 1, "is_oom_victim");
}

BOOK_TEST(exit, of_a_process_killed_otherwise_is_not_marked_as_oom)
{
	process->signal.group_exit_code = 9;
	thread_exit(main_thread, 9);
	expect_same(book_of(process)->is_oom_victim, 0, "is_oom_victim");
}
