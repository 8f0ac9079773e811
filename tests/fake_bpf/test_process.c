// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>

#include "shared/links_state.h"
#include "target.h"

/* Which processes are accounted for, and when their accounting begins and ends. */

ACCOUNT_TEST(process, that_is_not_admitted_leaves_no_trace)
{
	struct target_process *other = process_start(200);
	struct target_thread *thread = thread_start(other, 200);

	thread_run(thread);
	user_malloc(8, 0x1000);
	user_realloc(0x1000, 16, 0x2000);
	user_free(0x2000);
	thread_exec(thread);
	thread_exit(thread, 0);

	cr_expect(!book_of(other));
	cr_expect(fake_map_count(&process_slots) == 1);
	cr_expect(fake_map_count(&threads) == 0);
	cr_expect(block_cnt() == 0);
	cr_expect(fake_map_count(&tracebacks) == 0);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(process, that_is_admitted_during_a_call_has_an_unmatched_return)
{
	struct target_process *other = process_start(200);

	thread_run(thread_start(other, 200));
	enter(SHAPE_MALLOC, sp_at(1), 8);
	process_admit(other);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_unmatched_in(other, calls_are_sessions() ? 0 : 1);
	expect_in(other, allocations, 0);
}

ACCOUNT_TEST(process, blocks_may_have_the_same_address_as_blocks_of_another_process)
{
	struct target_process *other = process_start(200);

	process_admit(other);
	user_malloc(8, 0x1000);
	thread_run(thread_start(other, 200));
	user_malloc(16, 0x1000);

	expect_live(0x1000, 8);
	cr_expect(block_of(other, 0x1000)->size == 16);

	user_free(0x1000);
	expect_live(0x1000, 8);
	cr_expect(!block_of(other, 0x1000));
	expect(frees, 0);
	expect_in(other, frees, 1);
}

/* As the loader lets go of a process that goes on. */
static void forget(const struct target_process *target)
{
	__u32 tgid = target->pid;

	next_slot = *(__u32 *)bpf_map_lookup_elem(&process_slots, &tgid);
	bpf_map_delete_elem(&process_slots, &tgid);
}

ACCOUNT_TEST(process, that_was_forgotten_does_not_count_in_the_next_process_in_its_slot)
{
	struct target_process *gone = process_start(200), *other = process_start(300);

	process_admit(gone);
	thread_run(thread_start(gone, 200));
	user_malloc(8, 0x1000);
	user_free(0x1000);
	forget(gone);
	process_admit(other);
	user_malloc(16, 0x1000);
	user_free(0x1000);

	expect_in(other, allocations, 0);
	expect_in(other, unknown_frees, 0);
	cr_expect(block_cnt() == 0);
}

/* ---- exec ---- */

ACCOUNT_TEST(exec, of_another_thread_is_a_loss_because_it_ends_the_probes)
{
	thread_exec(main_thread);
	expect_same(book_of(process)->thread_exec_cnt, 0, "thread_exec_cnt");
	thread_exec_from(main_thread, 101);
	expect_same(book_of(process)->thread_exec_cnt, 1, "thread_exec_cnt");
	expect_loss(execs_unprobed, 1);
}

ACCOUNT_TEST(exec, starts_a_new_accounting)
{
	__u64 image = book_of(process)->image;

	user_malloc(8, 0x1000);
	user_free(0x9000);
	user_malloc(8, 0x1000);
	thread_exec(main_thread);

	cr_expect(book_of(process)->image != image);
	expect_same(book_of(process)->exec_cnt, 1, "exec_cnt");
	for (int i = 0; i < COUNTER_entry_traps; i++)
		expect_same(book_of(process)->counter[i], 0, "a counter");
	for (int i = 0; i < LOSS_NR; i++)
		expect_same(book_of(process)->loss[i], 0, "a loss");
}

ACCOUNT_TEST(exec, makes_old_blocks_unknown)
{
	user_malloc(8, 0x1000);
	thread_exec(main_thread);
	expect_gone(0x1000);
	user_free(0x1000);
	expect(unknown_frees, 1);
	expect(frees, 0);

	user_malloc(16, 0x1000); /* and no block is replaced */
	expect_live(0x1000, 16);
	cr_expect(block_cnt() == 2);
}

ACCOUNT_TEST(exec, forgets_the_pending_call)
{
	enter(SHAPE_MALLOC, sp_at(5), 8);
	thread_exec(main_thread);
	enter(SHAPE_MALLOC, sp_at(7), 16);
	leave(SHAPE_MALLOC, sp_at(7), 0x1000);

	expect_live(0x1000, 16);
	expect(nested_calls, 0);
	expect_loss(calls_unreturned, 0);
}

/* The new program's first free does not belong to the old program's last one. */
ACCOUNT_TEST(exec, forgets_the_last_free)
{
	enter(SHAPE_FREE, sp_at(1), 0x1000);
	thread_exec(main_thread);
	site_offset = 100;
	enter(SHAPE_FREE, sp_at(2), 0x1000);
	site_offset = 0;

	expect(unknown_frees, 1);
	expect(nested_calls, 0);
}

ACCOUNT_TEST(exec, during_a_realloc_frees_nothing_in_the_new_accounting)
{
	user_malloc(8, 0x1000);
	enter(SHAPE_REALLOC, sp_at(5), 0x1000, 16);
	thread_exec(main_thread);
	user_malloc(16, 0x2000);

	expect(frees, 0);
	expect(current_bytes, 16);
}

ACCOUNT_TEST(exec, never_uses_an_image_number_twice)
{
	struct target_process *other = process_start(200);
	__u64 image;

	process_admit(other);
	image = book_of(other)->image;
	thread_exec(main_thread);
	cr_expect(book_of(process)->image > image);
	image = book_of(process)->image;
	thread_exec(thread_start(other, 200));

	cr_expect(book_of(other)->image > image);
}

/* ---- exit ---- */

ACCOUNT_TEST(exit, of_a_thread_during_a_call_drops_the_call)
{
	struct target_thread *thread = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_run(thread);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	thread_exit(thread, 0);

	expect_loss(calls_unreturned, 1);
	expect_same(book_of(process)->exit_ns, 0, "exit_ns");
	expect_live(0x1000, 8);
}

ACCOUNT_TEST(exit, of_a_thread_during_a_realloc_restores_the_old_block)
{
	struct target_thread *thread = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_run(thread);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	thread_exit(thread, 0);

	expect_loss(calls_unreturned, 1);
	expect_live(0x1000, 8);
	expect(frees, 0);
}

ACCOUNT_TEST(exit, of_a_thread_during_a_realloc_keeps_the_new_block_at_its_address)
{
	struct target_thread *thread = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_run(thread);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	thread_run(main_thread);
	user_malloc(24, 0x1000);
	thread_run(thread);
	thread_exit(thread, 0);

	expect_loss(calls_unreturned, 1);
	expect_live(0x1000, 24);
	expect(frees, 1);
}

ACCOUNT_TEST(exit, of_a_thread_outside_a_call_loses_nothing)
{
	struct target_thread *thread = thread_start(process, 101);

	thread_run(thread);
	user_malloc(8, 0x1000);
	thread_exit(thread, 0);

	expect_live(0x1000, 8);
	expect_loss(calls_unreturned, 0);
}

ACCOUNT_TEST(exit, of_the_last_thread_ends_the_accounting_and_keeps_it)
{
	struct target_thread *thread = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_exit(main_thread, 0); /* the others go on, as with pthread_exit() in main */
	expect_same(book_of(process)->exit_ns, 0, "exit_ns");
	fake.now_ns = 777;
	thread_exit(thread, 3 << 8);

	expect_same(book_of(process)->exit_ns, 777, "exit_ns");
	expect_same(book_of(process)->exit_code, 3 << 8, "exit_code");
	expect_live(0x1000, 8);
	expect(current_blocks, 1);
}

ACCOUNT_TEST(exit, has_the_exit_code_of_the_thread_group_if_there_is_one)
{
	process->signal.group_exit_code = 9;
	thread_exit(main_thread, 0);

	expect_same(book_of(process)->exit_code, 9, "exit_code");
}

/* Links of a process beside the shared ones: whatever changes at whatever moment, each event counts once. */

extern __u64 links_state;
extern volatile struct settings settings; /* see bpf_alloc.c */

/* The loader begins the next phase before the first, between the two, or after the second program of a hit. */
static int programs_until_change;

static void change_at_program(bool begins)
{
	if (begins && programs_until_change-- == 0)
		links_state++;
}

/* From the given number of programs on it is the next phase. */
static void change_after(int program_nr)
{
	programs_until_change = program_nr;
	at_program = change_at_program;
}

/* Goes on to this phase. */
static void use_links(enum placed_links placed, enum links_phase phase)
{
	placed_links = placed;
	settings.has_own_links = true;
	while (LINKS_PHASE(links_state) != phase)
		links_state++;
	if (!calls_are_sessions() && !returns_are_probed())
		process_stop_hijacking(process); /* shared probes have no return probes */
}

ACCOUNT_TEST(links, that_are_older_count_until_the_newer_ones_do)
{
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_SHARED);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_free(0x1000);
	expect(allocations, 2);
	expect(frees, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(links, that_are_newer_count_from_the_next_phase_on)
{
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_TO_OWN);
	user_malloc(1, 0x1000);
	user_free(0x1000);
	expect(allocations, 1);
	expect(frees, 1);
	use_links(LINKS_OWN_ONLY, LINKS_OWN);
	user_malloc(2, 0x2000);
	expect(allocations, 2);
	expect_live(0x2000, 2);
	use_links(LINKS_SHARED_BEFORE_OWN, LINKS_TO_SHARED);
	user_malloc(3, 0x3000);
	expect(allocations, 3);
}

/* A hit runs two programs at the entry, and one or two at the return. */
#define PROGRAMS_MOST 8

static void check_change_amid_calls(enum placed_links placed, enum links_phase phase)
{
	for (int i = 0; i <= PROGRAMS_MOST; i++) {
		__u64 address = 0x1000 * (i + 1);

		use_links(placed, phase);
		change_after(i);
		user_malloc(8, address);
		user_free(address);
		user_malloc(8, address);
		at_program = NULL;
		expect(allocations, 2 * (__u64)(i + 1));
		expect(frees, (__u64)i + 1);
	}
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(links, of_a_process_take_over_amid_a_hit)
{
	check_change_amid_calls(LINKS_OWN_BEFORE_SHARED, LINKS_SHARED);
}

ACCOUNT_TEST(links, that_are_shared_take_over_amid_a_hit)
{
	check_change_amid_calls(LINKS_SHARED_BEFORE_OWN, LINKS_OWN);
}

/* The newer link came while the hit was at the older one: the newer one's program does not run. */
ACCOUNT_TEST(links, that_a_hit_did_not_meet_leave_it_to_the_older_ones)
{
	use_links(LINKS_SHARED_ONLY, LINKS_TO_OWN);
	user_malloc(1, 0x1000);
	expect(allocations, 1);
	use_links(LINKS_OWN_ONLY, LINKS_TO_SHARED);
	user_malloc(1, 0x2000);
	expect(allocations, 2);
}

ACCOUNT_TEST(links, that_go_count_nothing)
{
	use_links(LINKS_SHARED_ONLY, LINKS_OWN);
	user_malloc(1, 0x1000);
	expect(allocations, 0);
	use_links(LINKS_OWN_ONLY, LINKS_SHARED);
	user_malloc(1, 0x2000);
	expect(allocations, 0);
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_SHARED);
	user_malloc(1, 0x3000);
	expect(allocations, 1);
}

ACCOUNT_TEST(links, of_both_kinds_share_a_call)
{
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_SHARED);
	user_malloc(1, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 2);
	links_state++;
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	user_realloc(0x2000, 3, 0x3000);
	expect_gone(0x1000);
	expect_gone(0x2000);
	expect_live(0x3000, 3);
	expect_loss(calls_unreturned, 0);
	expect_loss(returns_unmatched, 0);
}

/* A note from the time when own links counted says nothing about the next time. */
ACCOUNT_TEST(links, keep_to_no_note_of_an_earlier_change)
{
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_TO_OWN);
	user_malloc(1, 0x1000);
	use_links(LINKS_SHARED_ONLY, LINKS_SHARED);
	use_links(LINKS_SHARED_ONLY, LINKS_TO_OWN);
	user_malloc(1, 0x2000);
	expect(allocations, 2);
}

static __u64 main_thread_traps(void)
{
	const struct thread *thread = bpf_task_storage_get(&threads, &main_thread->task, NULL, 0);
	__u64 nr = 0;

	for (int i = 0; i < TRAP_NR; i++)
		nr += thread->cost.trap_cnt[i] + book_of(process)->counter[COUNTER_entry_traps + i];
	return nr;
}

ACCOUNT_TEST(links, count_a_trap_once)
{
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_TO_OWN);
	user_malloc(1, 0x1000);
	user_free(0x1000);
	expect_same(main_thread_traps(), 3, "traps");
}
