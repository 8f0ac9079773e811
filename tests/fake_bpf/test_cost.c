// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The cost of the probes: traps by their kind, and the time of the programs. */
#include "target.h"

/* Each trap counts at once. */
static void time_each_program(void)
{
	static const __u32 least = 0;

	fake.random_is = &least;
}

static void expect_traps(__u64 entry, __u64 stepped, __u64 returned)
{
	expect(entry_traps, entry);
	expect(stepped_traps, stepped);
	expect(return_traps, returned);
}

/* A `ret` is single-stepped where returns are seen there. */
#define returns(n) (returns_are_probed() ? 0 : (n))
#define rets(n) (returns_are_probed() ? (n) : 0)

BOOK_TEST(cost, counts_traps_by_their_kind)
{
	time_each_program();
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	is_stepped = true;
	user_free(0x1000);
	expect_traps(2, 1 + rets(2), returns(2));
}

BOOK_TEST(cost, counts_calls_that_record_nothing)
{
	time_each_program();
	user_free(0);
	user_malloc(1, 0);
	user_free(0x9999);
	expect_traps(3, rets(1), returns(1));
}

/* The nested call's return address stays, with sessions: there is no trap at its return. */
BOOK_TEST(cost, counts_nested_calls)
{
	time_each_program();
	enter(SHAPE_MALLOC, sp_at(1), 8);
	enter(SHAPE_MALLOC, sp_at(2), 8);
	expect_traps(2, 0, 0);
}

/* A sampler tells the blocks: once a session knows that malloc calls no other function, its calls have no return. */
BOOK_TEST(cost, of_a_call_beside_a_sampler_is_its_entry)
{
	time_each_program();
	user_sample(0x1000, 100, 5000);
	for (int i = 0; i < 100; i++)
		user_malloc(64, 0x2000);
	expect_traps(101, rets(100), returns(calls_are_sessions() ? 64 : 100));
}

BOOK_TEST(cost, is_counted_for_each_process)
{
	struct target_process *other = process_start(200);

	time_each_program();
	process_admit(other);
	user_malloc(1, 0x1000);
	thread_run(thread_start(other, 200));
	user_free(0);
	expect_traps(1, rets(1), returns(1));
	expect_in(other, entry_traps, 1);
	expect_in(other, return_traps, 0);
}

BOOK_TEST(cost, of_an_unrecorded_process_is_not_counted)
{
	thread_run(thread_start(process_start(200), 200));
	user_malloc(1, 0x1000);
	expect_traps(0, 0, 0);
}

/* The thread has no state yet; with sessions the kernel does not report the return. */
BOOK_TEST(cost, counts_the_return_of_a_call_that_began_before_the_accounting)
{
	struct target_process *other = process_start(200);

	thread_run(thread_start(other, 200));
	enter(SHAPE_MALLOC, sp_at(1), 8);
	process_admit(other);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_in(other, entry_traps, 0);
	expect_in(other, stepped_traps, rets(1));
	expect_in(other, return_traps, returns(calls_are_sessions() ? 0 : 1));
	expect_unmatched_in(other, calls_are_sessions() ? 0 : 1);
}

/* Until then the thread holds its own count. */
BOOK_TEST(cost, is_added_to_the_accounting_from_time_to_time)
{
	fake.random_is = &(const __u32){ 9 }; /* each tenth program is timed */
	user_malloc(1, 0x1000);
	for (int i = 0; i < 25; i++)
		user_free(0);
	cr_expect(book_of(process)->counter[COUNTER_entry_traps] >= 20);
	cr_expect(book_of(process)->counter[COUNTER_entry_traps] < 26);
	thread_exit(main_thread, 0);
	expect_traps(26, rets(1), returns(1));
}

/* The clock moves on by 1 with each look at it, and one program in 64 is timed on average. */
BOOK_TEST(cost, includes_the_time_of_bpf_programs)
{
	__u64 before;

	time_each_program();
	user_malloc(1, 0x1000);
	user_free(0);
	before = book_of(process)->counter[COUNTER_program_ns];
	user_free(0);
	expect(program_ns, before + 64);
}

static void stand_still(const void *map)
{
	(void)map;
	fake.boot_ns += 1000000000;
}

BOOK_TEST(cost, of_an_interrupted_bpf_program_is_bounded)
{
	__u64 before;

	time_each_program();
	user_malloc(1, 0x1000);
	user_free(0);
	before = book_of(process)->counter[COUNTER_program_ns];
	fake.before_map = stand_still;
	user_free(0x1000);
	fake.before_map = NULL;
	expect(program_ns, before + 65536 * 64);
}

/* The CPU time, which includes the cost, continues as well. */
BOOK_TEST(cost, continues_when_a_new_accounting_starts)
{
	time_each_program();
	user_malloc(1, 0x1000);
	thread_exec(main_thread);
	expect(allocations, 0);
	expect_traps(1, rets(1), returns(1));
	user_free(0);
	expect_traps(2, rets(1), returns(1));
}

/* The kernel sums up a main thread's time only after all other threads have ended. */
BOOK_TEST(cost, includes_the_cpu_time_of_a_main_thread_that_ended_first)
{
	struct target_thread *other = thread_start(process, 101);

	main_thread->task.se.sum_exec_runtime = 1000;
	other->task.se.sum_exec_runtime = 234;
	thread_exit(main_thread, 0);
	thread_exit(other, 0);
	cr_expect_eq(book_of(process)->cpu_ns, 1234);
}

BOOK_TEST(cost, includes_the_cpu_time_of_all_threads_at_exit)
{
	process->signal.sum_sched_runtime = 1000;
	main_thread->task.se.sum_exec_runtime = 234;
	thread_exit(main_thread, 0);
	cr_expect_eq(book_of(process)->cpu_ns, 1234);
}
