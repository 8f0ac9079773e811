// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* System-wide recording: accounting that begins at an exec or a fork, and how it ends. */
#include "target.h"
#include <bpf/bpf_helpers.h>
#include <string.h>

extern volatile struct rules rules; /* see bpf_process.c */
extern __u32 slot_taken[PROCESSES_MAX];
extern struct process ended_small_sum;
extern __u64 ended_small, admissions_dropped, stale_blocks;

#define MIN_BYTES 100

/* Rule 0: of its name; rule 1, if any: of a PID that is not. */
static void admit_by_name(const char *comm, pid_t but)
{
	volatile struct rule *rule = rules.rule;

	rules.everyone = 1;
	rules.min_bytes = MIN_BYTES;
	rules.by_ret = returns_are_probed();
	rules.nr = 1 + !!but;
	rules.has_pids = !!but;
	rule[0].key = RULE_COMM;
	for (size_t i = 0; i <= strlen(comm); i++)
		rule[0].pattern[i] = comm[i];
	rule[1].key = RULE_PID;
	rule[1].excludes = 1;
	rule[1].number = but;
}

static struct target_thread *newcomer(pid_t pid, const char *comm)
{
	struct target_thread *thread = thread_start(process_start(pid), pid);

	strcpy(thread->task.comm, comm);
	return thread;
}

static void exec_as(struct target_thread *thread, const char *comm)
{
	strcpy(thread->task.comm, comm);
	thread_exec(thread);
}

static struct process *slot_at(__u32 slot)
{
	return bpf_map_lookup_elem(&processes, &slot);
}

static __u32 slot_of(const struct target_thread *thread)
{
	return book_of(thread->process)->slot;
}

BOOK_TEST(system_wide, an_admitted_process_is_recorded_from_its_exec)
{
	struct target_thread *thread = newcomer(200, "sh");

	admit_by_name("shopd", 0);
	thread_run(thread);
	user_malloc(8, 0x1000);
	cr_expect(!book_of(thread->process));
	thread->task.start_time = 5;
	exec_as(thread, "shopd");
	user_malloc(16, 0x1000);

	cr_expect(block_of(thread->process, 0x1000)->size == 16);
	expect_same(book_of(thread->process)->exec_cnt, 1, "exec_cnt");
	expect_same(book_of(thread->process)->forked_ns, 5, "events are looked for from its birth on");
	expect_same(book_of(thread->process)->parent, 0, "parent");
	cr_expect(book_of(thread->process)->admitted_ns > 5);
	cr_expect_eq(fake.rung_for, 200);
}

BOOK_TEST(system_wide, a_process_that_is_not_admitted_has_no_accounting)
{
	struct target_thread *thread = newcomer(200, "sh");

	admit_by_name("shopd", 0);
	exec_as(thread, "bash");
	user_malloc(8, 0x1000);
	cr_expect(!book_of(thread->process));
	cr_expect_eq(block_cnt(), 0);
}

BOOK_TEST(system_wide, an_exec_of_an_admitted_program_starts_a_new_accounting)
{
	struct target_thread *thread = newcomer(200, "sh");
	__u64 image;

	admit_by_name("shop*", 0);
	exec_as(thread, "shopd");
	image = book_of(thread->process)->image;
	user_malloc(8, 0x1000);
	exec_as(thread, "shop2");
	cr_expect(book_of(thread->process)->image > image);
	expect_same(book_of(thread->process)->exec_cnt, 2, "exec_cnt");
	cr_expect_eq(stale_blocks, 1);
}

BOOK_TEST(system_wide, an_exec_of_a_program_that_is_not_admitted_ends_the_accounting)
{
	struct target_thread *thread = newcomer(200, "sh");
	struct process *books;

	admit_by_name("shopd", 0);
	exec_as(thread, "shopd");
	user_malloc(MIN_BYTES, 0x1000);
	books = book_of(thread->process);
	exec_as(thread, "bash");
	user_malloc(8, 0x2000);

	cr_expect(!book_of(thread->process));
	cr_expect(books->has_left && books->exit_ns && slot_taken[books->slot]);
	expect_same(books->counter[COUNTER_current_bytes], MIN_BYTES, "bytes at its end");
	cr_expect_eq(block_cnt(), 1);
	exec_as(thread, "shopd"); /* and comes back */
	cr_expect(book_of(thread->process) && book_of(thread->process) != books);
}

/* Until its exec the thread counted for its parent, and had cached where the parent's accounting is. */
BOOK_TEST(system_wide, a_vforked_child_that_is_not_admitted_is_not_recorded)
{
	struct target_thread *parent = newcomer(200, "shopd"), *child;

	admit_by_name("shopd", 0);
	thread_exec(parent);
	child = thread_vfork(201);
	thread_run(child);
	user_malloc(8, 0x1000);
	exec_as(child, "sleep");
	user_malloc(16, 0x2000);

	expect_same(book_of(parent->process)->counter[COUNTER_allocations], 1, "the parent's");
	cr_expect_eq(block_cnt(), 1);
}

BOOK_TEST(system_wide, a_child_is_admitted_when_its_parent_is_admitted)
{
	struct target_thread *parent = newcomer(200, "shopd"), *child;

	admit_by_name("shopd", 0);
	thread_exec(parent);
	child = thread_fork(201);
	cr_expect(book_of(child->process));
	expect_same(book_of(child->process)->parent, 200, "parent");
	thread_run(newcomer(300, "bash"));
	cr_expect(!book_of(thread_fork(301)->process));
}

BOOK_TEST(system_wide, a_child_does_not_match_the_pid_rule_of_its_parent)
{
	struct target_thread *parent = newcomer(200, "shopd"), *child;

	admit_by_name("shopd", 200);
	thread_exec(parent);
	cr_expect(!book_of(parent->process));
	child = thread_fork(201);
	strcpy(child->task.comm, "shopd");
	cr_expect(!book_of(child->process)); /* it had no name yet */
	rules.rule[0].pattern[0] = '\0';
	child = thread_fork(202);
	cr_expect(book_of(child->process));
	expect_same(book_of(child->process)->parent, 0, "parent");
}

BOOK_TEST(system_wide, a_process_below_min_bytes_leaves_no_accounting_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");
	__u32 slot;

	admit_by_name("shopd", 0);
	thread_exec(thread);
	slot = slot_of(thread);
	user_malloc(MIN_BYTES - 1, 0x1000);
	thread_exit(thread, 0);

	cr_expect_eq(ended_small, 1);
	cr_expect(!slot_taken[slot]);
	cr_expect_eq(slot_at(slot)->image, 0);
	cr_expect_eq(stale_blocks, 1);
	cr_expect_eq(fake_map_count(&process_slots), 1);
}

BOOK_TEST(system_wide, totals_include_processes_below_min_bytes)
{
	admit_by_name("shopd", 0);
	for (int i = 0; i < 3; i++) {
		struct target_thread *thread = newcomer(200 + i, "shopd");

		thread_exec(thread);
		user_malloc(1, 0x1000);
		user_malloc(2, 0x2000);
		user_free(0x1000);
		book_of(thread->process)->loss[LOSS_processes_dropped] = 5;
		thread->task.signal->sum_sched_runtime = 7;
		thread->task.se.sum_exec_runtime = 2;
		thread_exit(thread, 0);
	}
	cr_expect_eq(ended_small, 3);
	expect_same(ended_small_sum.counter[COUNTER_allocations], 6, "allocations");
	expect_same(ended_small_sum.counter[COUNTER_frees], 3, "frees");
	expect_same(ended_small_sum.loss[LOSS_processes_dropped], 15, "losses");
	expect_same(ended_small_sum.cpu_ns, 27, "CPU time");
}

static bool is_left_at_its_end(struct target_thread *thread)
{
	__u32 slot = slot_of(thread);

	thread_exit(thread, 0);
	cr_expect_eq(fake.rung_for, (__u32)thread->task.tgid);
	return slot_taken[slot] && slot_at(slot)->image && slot_at(slot)->exit_ns;
}

BOOK_TEST(system_wide, a_process_above_min_bytes_stays_for_the_loader_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");

	admit_by_name("shopd", 0);
	thread_exec(thread);
	user_malloc(MIN_BYTES, 0x1000);
	user_free(0x1000);
	cr_expect(is_left_at_its_end(thread));
}

BOOK_TEST(system_wide, a_process_that_the_loader_owns_stays_for_the_loader_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");

	admit_by_name("shopd", 0);
	thread_exec(thread);
	user_malloc(1, 0x1000);
	book_of(thread->process)->owner = BOOKS_OF_LOADER;
	cr_expect(is_left_at_its_end(thread));
}

/* The loader may have to probe a file that the process mapped, for processes that map it later. */
BOOK_TEST(system_wide, a_process_that_never_allocated_stays_for_the_loader_when_it_exits)
{
	struct target_thread *thread = newcomer(200, "shopd");

	admit_by_name("shopd", 0);
	thread_exec(thread);
	cr_expect(is_left_at_its_end(thread));
}

BOOK_TEST(system_wide, a_pid_may_be_reused_before_the_loader_reads_the_accounting)
{
	struct target_thread *first = newcomer(200, "shopd"), *second;
	struct process *books;

	admit_by_name("shopd", 0);
	thread_exec(first);
	user_malloc(MIN_BYTES, 0x1000);
	books = book_of(first->process);
	thread_exit(first, 0);
	first->process->pid = 0; /* the kernel has forgotten it */
	second = newcomer(200, "shopd");
	thread_exec(second);
	user_malloc(MIN_BYTES + 1, 0x1000);

	cr_expect(book_of(second->process) != books);
	expect_same(books->counter[COUNTER_current_bytes], MIN_BYTES, "the first one's");
	expect_same(book_of(second->process)->counter[COUNTER_current_bytes], MIN_BYTES + 1, "the second one's");
}

BOOK_TEST(system_wide, a_process_without_a_free_slot_is_counted)
{
	admit_by_name("shopd", 0);
	memset(slot_taken, 1, sizeof(slot_taken));
	thread_exec(newcomer(200, "shopd"));
	cr_expect_eq(admissions_dropped, 1);
}

static __u64 bystander_traps_of(__u32 trap)
{
	return *(__u64 *)bpf_map_lookup_elem(&bystander_traps, &trap);
}

BOOK_TEST(system_wide, an_unrecorded_process_is_a_bystander_and_its_traps_are_counted)
{
	struct target_thread *thread = newcomer(200, "bash");
	__u64 traps;

	thread_run(thread);
	user_malloc(8, 0x1000);
	user_free(0x1000);
	/* A session's return has no trap then; a `ret` is one like an entry. */
	traps = bystander_traps_of(0) + bystander_traps_of(1) + bystander_traps_of(2);
	cr_expect_eq(traps, 2 + (!calls_are_sessions() && !returns_are_probed()), "%llu traps", traps);
	cr_expect_eq(fake_map_count(&threads), 0);
}
