// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>

#include "target.h"

/* the pid of a dead process is taken before the loader has drained its book */
ACCOUNT_TEST(accounting, a_dead_process_keeps_its_accounting_when_its_pid_is_reused)
{
	struct target_thread *thread;
	__u64 image, exit_ns;

	user_malloc(8, 0x1000);
	thread_exit(main_thread, 3 << 8);
	image = book_of(process)->image;
	exit_ns = book_of(process)->exit_ns;

	thread = thread_start(process, 100);
	thread_run(thread);
	user_malloc(8, 0x2000);
	user_free(0x1000);
	expect(allocations, 1);
	expect_live(0x1000, 8);
	thread_exec(thread);
	thread_exit(thread, 0);
	expect_same(book_of(process)->image, image, "image");
	expect_same(book_of(process)->exit_ns, exit_ns, "exit_ns");
	expect_same(book_of(process)->exit_code, 3 << 8, "exit_code");
	expect_live(0x1000, 8);
}

ACCOUNT_TEST(accounting, total_nframe_is_counted_for_each_stack)
{
	settings_set(2, 0);
	stack_is(0x10001, 0x10002, 0x10003);
	user_malloc(8, 0x1000);
	stack_is(0x10001, 0x10002, 0x10003, 0x10004, 0x10005);
	user_malloc(8, 0x2000);
	expect_same(traceback_at(0x1000)->total_nframe, 3, "total_nframe");
	expect_same(traceback_at(0x2000)->total_nframe, 5, "total_nframe");
}

/* a call was left by an exception; its return slot was overwritten since; all deeper calls vanish */
ACCOUNT_TEST(accounting, a_lost_call_does_not_hide_deeper_calls)
{
	enter(SHAPE_MALLOC, sp_at(10), 8);
	*(__u64 *)sp_at(10) = 42; /* a local variable now */
	for (int i = 1; i <= 100; i++) {
		enter(SHAPE_MALLOC, sp_at(20), 8);
		leave(SHAPE_MALLOC, sp_at(20), 0x1000 * i);
	}
	expect(allocations, 100);
	expect_loss(calls_unreturned, 1);
}

ACCOUNT_TEST(accounting, a_thread_waits_while_another_one_makes_its_state)
{
	thread_run(thread_start(process, 101));
	fake.storage_tries = 0;
	fake.storage_busy = 100000;
	user_malloc(24, 0x1000);
	expect_live(0x1000, 24);
	expect_loss(threads_dropped, 0);
}

ACCOUNT_TEST(accounting, threads_without_memory_stop_trying)
{
	thread_run(thread_start(process, 101));
	fake.out_of_memory = true;
	for (int i = 0; i < 16; i++)
		enter(SHAPE_MALLOC, sp_at(1), 24);
	fake.storage_tries = 0;
	enter(SHAPE_MALLOC, sp_at(1), 24);
	fake.out_of_memory = false;
	cr_expect_eq(fake.storage_tries, 1);
	expect_loss(threads_dropped, 17);
}

ACCOUNT_TEST(accounting, a_realloc_of_a_thread_without_state_frees_the_old_block)
{
	user_malloc(24, 0x1000);
	thread_run(thread_start(process, 101));
	fake.out_of_memory = true;
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	fake.out_of_memory = false;
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	expect_loss(threads_dropped, 1);
	expect_unmatched(calls_are_sessions() ? 0 : 1);
	expect_gone(0x1000);
}

/* the target has a bug: double use of p across threads */
ACCOUNT_TEST(accounting, a_failed_realloc_whose_old_address_is_reused_keeps_the_sums_right)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	thread_run(thread_start(process, 101));
	user_free(0x1000);
	user_malloc(8, 0x1000);
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(1), 0);
	expect_loss(blocks_replaced, 1);
}

/* clear_traces or a second attach gives a new image while a realloc is pending */
ACCOUNT_TEST(accounting, an_accounting_that_starts_during_a_realloc_does_not_underflow)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	process_admit(process);
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	expect(current_bytes, 100);
	expect(frees, 0);
}

/* OOM kill inside realloc's copy */
ACCOUNT_TEST(accounting, a_process_killed_during_realloc_keeps_the_old_block)
{
	user_malloc(1 << 30, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 1ULL << 31);
	process->signal.group_exit_code = 9;
	thread_exit(main_thread, 9);
	expect_loss(calls_unreturned, 1);
	expect_live(0x1000, 1 << 30);
}

/* While probes are being placed, calls in flight are noted and nothing else. */
ACCOUNT_TEST(accounting, an_accounting_that_is_not_open_records_only_calls_that_return_after_it_opens)
{
	book_of(process)->is_open = 0;
	user_malloc(8, 0x1000);
	user_free(0x3000);
	leave(SHAPE_MALLOC, sp_at(1), 0x4000);
	expect(allocations, 0);
	expect(unknown_frees, 0);
	enter(SHAPE_MALLOC, sp_at(1), 16);
	book_of(process)->is_open = 1;
	leave(SHAPE_MALLOC, sp_at(1), 0x2000);
	expect(allocations, 1);
	expect_live(0x2000, 16);
}

/* Churn: allocations per traceback, and blocks freed before their thread entered another block. */

static const struct churn *churn_at(__u64 address)
{
	const struct traceback *traceback = traceback_at(address);

	cr_assert(traceback);
	return &traceback->churn;
}

#define expect_churn(churn_, allocations_, bytes_, temporary_, temporary_bytes_) \
	do { \
		const struct churn *c_ = churn_; \
		expect_same(c_->allocations, allocations_, "allocations"); \
		expect_same(c_->allocated_bytes, bytes_, "allocated_bytes"); \
		expect_same(c_->temporary, temporary_, "temporary"); \
		expect_same(c_->temporary_bytes, temporary_bytes_, "temporary_bytes"); \
	} while (0)

ACCOUNT_TEST(churn, is_counted_by_traceback)
{
	stack_is(0x401000, 0x402000);
	user_malloc(8, 0x1000);
	user_malloc(16, 0x2000);
	stack_is(0x401000, 0x403000);
	user_malloc(32, 0x3000);
	user_free(0x1000);

	expect_churn(churn_at(0x2000), 2, 24, 0, 0);
	expect_churn(churn_at(0x3000), 1, 32, 0, 0);
	expect(temporary_blocks, 0);
}

ACCOUNT_TEST(churn, a_block_freed_next_is_temporary)
{
	user_malloc(8, 0x1000);
	user_malloc(16, 0x2000);
	user_free(0x2000);
	user_free(0x1000);

	expect(temporary_blocks, 1);
	expect(temporary_bytes, 16);
	user_malloc(40, 0x3000);
	expect_churn(churn_at(0x3000), 3, 64, 1, 16);
}

ACCOUNT_TEST(churn, a_block_that_another_thread_frees_is_not_temporary)
{
	user_malloc(8, 0x1000);
	thread_run(thread_start(process, 101));
	user_malloc(8, 0x2000);
	user_free(0x1000);

	expect(temporary_blocks, 0);
}

/* Another thread has freed the address and got it again meanwhile. */
ACCOUNT_TEST(churn, a_block_of_another_thread_at_the_same_address_is_not_temporary)
{
	struct target_thread *other = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_run(other);
	user_free(0x1000);
	user_malloc(8, 0x1000);
	thread_run(main_thread);
	user_free(0x1000);

	expect(temporary_blocks, 0);
}

ACCOUNT_TEST(churn, the_old_block_of_a_realloc_is_not_temporary)
{
	user_malloc(8, 0x1000);
	user_realloc(0x1000, 16, 0x2000);
	expect(temporary_blocks, 0);

	user_free(0x2000);
	expect(temporary_blocks, 1);
	expect(temporary_bytes, 16);
}

ACCOUNT_TEST(churn, a_failed_call_does_not_end_the_temporary_block)
{
	user_malloc(8, 0x1000);
	user_malloc(1 << 20, 0);
	user_free(0x1000);

	expect(temporary_blocks, 1);
}

ACCOUNT_TEST(churn, a_dropped_block_is_not_counted)
{
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_malloc(8, 0x1000);
	user_malloc(16, 0x2000);

	expect_churn(churn_at(0x1000), 1, 8, 0, 0);
	expect_loss(blocks_dropped, 1);
}

ACCOUNT_TEST(churn, peak_blocks_stay_when_blocks_are_freed)
{
	user_malloc(8, 0x1000);
	user_malloc(8, 0x2000);
	user_free(0x1000);
	user_malloc(8, 0x3000);
	user_free(0x3000);

	expect(peak_blocks, 2);
	expect(current_blocks, 1);
}

/* The cost of the probes: traps by their kind, and the time of the programs. */

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

ACCOUNT_TEST(cost, counts_traps_by_their_kind)
{
	time_each_program();
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	is_stepped = true;
	user_free(0x1000);
	expect_traps(2, 1 + rets(2), returns(2));
}

ACCOUNT_TEST(cost, counts_calls_that_record_nothing)
{
	time_each_program();
	user_free(0);
	user_malloc(1, 0);
	user_free(0x9999);
	expect_traps(3, rets(1), returns(1));
}

/* The nested call's return address stays, with sessions: there is no trap at its return. */
ACCOUNT_TEST(cost, counts_nested_calls)
{
	time_each_program();
	enter(SHAPE_MALLOC, sp_at(1), 8);
	enter(SHAPE_MALLOC, sp_at(2), 8);
	expect_traps(2, 0, 0);
}

/* A sampler reports the blocks: once a session knows that malloc calls no other function, its calls have no return. */
ACCOUNT_TEST(cost, of_a_call_beside_a_sampler_is_its_entry)
{
	time_each_program();
	user_sample(0x1000, 100, 5000);
	for (int i = 0; i < 100; i++)
		user_malloc(64, 0x2000);
	expect_traps(101, rets(100), returns(calls_are_sessions() ? 64 : 100));
}

ACCOUNT_TEST(cost, is_counted_for_each_process)
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

ACCOUNT_TEST(cost, of_an_unrecorded_process_is_not_counted)
{
	thread_run(thread_start(process_start(200), 200));
	user_malloc(1, 0x1000);
	expect_traps(0, 0, 0);
}

/* The thread has no state yet; with sessions the kernel does not report the return. */
ACCOUNT_TEST(cost, counts_the_return_of_a_call_that_began_before_the_accounting)
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
ACCOUNT_TEST(cost, is_added_to_the_accounting_from_time_to_time)
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
ACCOUNT_TEST(cost, includes_the_time_of_bpf_programs)
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

ACCOUNT_TEST(cost, of_an_interrupted_bpf_program_is_bounded)
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
ACCOUNT_TEST(cost, continues_when_a_new_accounting_starts)
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
ACCOUNT_TEST(cost, includes_the_cpu_time_of_a_main_thread_that_ended_first)
{
	struct target_thread *other = thread_start(process, 101);

	main_thread->task.se.sum_exec_runtime = 1000;
	other->task.se.sum_exec_runtime = 234;
	thread_exit(main_thread, 0);
	thread_exit(other, 0);
	cr_expect_eq(book_of(process)->cpu_ns, 1234);
}

ACCOUNT_TEST(cost, includes_the_cpu_time_of_all_threads_at_exit)
{
	process->signal.sum_sched_runtime = 1000;
	main_thread->task.se.sum_exec_runtime = 234;
	thread_exit(main_thread, 0);
	cr_expect_eq(book_of(process)->cpu_ns, 1234);
}
