// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Links of a process beside the shared ones: whatever changes at whatever moment, each event counts once. */
#include "target.h"
#include "shared/links_state.h"

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

BOOK_TEST(links, that_are_older_count_until_the_newer_ones_do)
{
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_SHARED);
	user_malloc(1, 0x1000);
	user_malloc(2, 0x2000);
	user_free(0x1000);
	expect(allocations, 2);
	expect(frees, 1);
	expect(unknown_frees, 0);
}

BOOK_TEST(links, that_are_newer_count_from_the_next_phase_on)
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

BOOK_TEST(links, of_a_process_take_over_amid_a_hit)
{
	check_change_amid_calls(LINKS_OWN_BEFORE_SHARED, LINKS_SHARED);
}

BOOK_TEST(links, that_are_shared_take_over_amid_a_hit)
{
	check_change_amid_calls(LINKS_SHARED_BEFORE_OWN, LINKS_OWN);
}

/* The newer link came while the hit was at the older one: the newer one's program does not run. */
BOOK_TEST(links, that_a_hit_did_not_meet_leave_it_to_the_older_ones)
{
	use_links(LINKS_SHARED_ONLY, LINKS_TO_OWN);
	user_malloc(1, 0x1000);
	expect(allocations, 1);
	use_links(LINKS_OWN_ONLY, LINKS_TO_SHARED);
	user_malloc(1, 0x2000);
	expect(allocations, 2);
}

BOOK_TEST(links, that_go_count_nothing)
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

BOOK_TEST(links, of_both_kinds_share_a_call)
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
BOOK_TEST(links, keep_to_no_note_of_an_earlier_change)
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

BOOK_TEST(links, count_a_trap_once)
{
	use_links(LINKS_OWN_BEFORE_SHARED, LINKS_TO_OWN);
	user_malloc(1, 0x1000);
	user_free(0x1000);
	expect_same(main_thread_traps(), 3, "traps");
}
