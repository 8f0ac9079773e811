// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The hooks' walks over native stacks, by rules that a test makes: each compared with a walk without a memo. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "books_fixture.h"
#include "exact/known_code.h"

#define WORDS 1024 /* two pages */

static struct made_books made;
static uint64_t *stack, *stack_end; /* of the main thread */

#define BOOKS_BASE ((uint64_t)made.base)
#define BOOKS_ARE_ON true
#define BOOKS_OWN_TID 1
#define BOOKS_MAIN_STACK_END ((uint64_t)stack_end)
#define BOOKS_MAIN_POINTER own_thread_pointer()
#define BOOKS_MAY_CALL true

static struct books_thread *own_thread_slot(void);

#include "exact/native_calls.h"

static struct books_thread *own_thread_slot(void)
{
	return find_thread_slot();
}

static void begin_native(void)
{
	make_file_of_books(&made);
	HEAD->known_nr = 1;
	memset(native_rule, 0, sizeof(native_rule));
	stack = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(stack, MAP_FAILED);
	stack_end = stack + WORDS;
}

static void end_native(void)
{
	munmap(stack, WORDS * 8);
	release_made_books(&made);
}

TestSuite(exact_native, .init = begin_native, .fini = end_native);

/* The recorder has said this of the code before an address. */
static void say_of_code(uint64_t pc, uint64_t word)
{
	uint64_t key = (pc - 1) * MULTIPLIER;
	struct native_rule *known = &native_rule[key >> (64 - NATIVE_RULES_SHIFT)];

	cr_assert_eq(known->check, 0, "two rules have one place");
	known->word = word;
	known->check = key ^ word;
}

static void say_rule(uint64_t pc, struct unwind_rule rule)
{
	uint64_t word;

	memcpy(&word, &rule, sizeof(word));
	say_of_code(pc, word);
}

/* Return addresses. */
enum {
	LEAF = 0x10001,
	LOSING_LEAF = 0x20002,
	MIDDLE = 0x30003,
	OTHER_MIDDLE = 0x40004,
	LARGE = 0x50005,
	OTHER_LARGE = 0x60006,
	BY_FP = 0x70007,
	ROOT = 0x80008,
	NOWHERE = 0x90009,
};

static void say_rules(void)
{
	say_rule(LEAF, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 8 });
	say_rule(LOSING_LEAF, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .fp_kind = UNWIND_FP_LOST, .cfa_off = 8 });
	say_rule(MIDDLE, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 16 });
	say_rule(OTHER_MIDDLE, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 16 });
	say_rule(LARGE, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 4096 });
	say_rule(OTHER_LARGE, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 4096 });
	say_rule(BY_FP, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_FP, .fp_kind = UNWIND_FP_AT_FP, .cfa_off = 16 });
	say_rule(ROOT, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_ROOT });
	say_of_code(NOWHERE, UNWIND_MISS(UNWIND_NO_CODE));
	say_of_code(0, UNWIND_MISS(UNWIND_NO_CODE));
}

static uint32_t walk(void)
{
	return walk_native_by_memo(find_thread_slot(), stack);
}

static uint32_t walk_plainly(void)
{
	struct books_thread *thread = calloc(1, sizeof(*thread));
	uint32_t node;

	thread->native.known_nr = UINT64_MAX;
	node = walk_native_by_memo(thread, stack);
	free(thread);
	return node;
}

static int frames_of(uint32_t node)
{
	int nr = 0;

	for (; node && !(NODES[node].word & BOOKS_END); node = NODES[node].parent)
		nr++;
	return node ? nr : -1;
}

/* The walk finds so many frames, as a plain one does. */
static void expect_frames(unsigned int nr)
{
	cr_expect_eq(frames_of(walk()), nr);
	cr_expect_eq(walk(), walk_plainly());
}

/* Whether fp is known where a frame is found by it depends on the functions farther in. */
Test(exact_native, a_frame_whose_fp_is_lost_is_not_one_that_has_it)
{
	say_rules();
	for (int i = 0; i < 4; i++) {
		stack[0] = (uint64_t)(stack + 10);
		stack[1] = i % 2 ? LEAF : LOSING_LEAF;
		stack[2] = MIDDLE;
		stack[4] = BY_FP;
		stack[11] = ROOT;
		cr_expect_eq(frames_of(walk()), i % 2 ? 4 : 3, "walk %d", i);
		cr_expect_eq(walk(), walk_plainly(), "walk %d", i);
	}
}

/* The frames in between are as they were. */
Test(exact_native, fp_is_lost_only_below_a_function_that_loses_it)
{
	say_rules();
	stack[0] = (uint64_t)(stack + 10);
	stack[1] = LOSING_LEAF;
	stack[2] = MIDDLE;
	stack[4] = OTHER_MIDDLE;
	stack[6] = ROOT;
	stack[11] = ROOT;
	cr_expect_eq(frames_of(walk()), 4);
	stack[1] = LEAF;
	stack[6] = BY_FP;
	expect_frames(5);
}

Test(exact_native, a_return_address_outside_of_code_is_compared)
{
	say_rules();
	stack[1] = LEAF;
	stack[2] = MIDDLE;
	stack[4] = NOWHERE;
	expect_frames(2);
	stack[4] = ROOT;
	expect_frames(3);
	stack[4] = NOWHERE;
	stack[1] = MIDDLE;
	stack[3] = MIDDLE;
	stack[5] = ROOT;
	expect_frames(3);
}

Test(exact_native, a_return_address_of_0_ends_a_stack)
{
	say_rules();
	stack[1] = LEAF;
	stack[2] = MIDDLE;
	cr_expect_eq(frames_of(walk()), 2);
	cr_expect_eq(HEAD->lost[BOOKS_DEEP], 0);
}

Test(exact_native, there_is_no_room_for_a_traceback)
{
	say_rules();
	HEAD->node_nr = BOOKS_NO_NODE - 1;
	stack[1] = LEAF;
	stack[2] = MIDDLE;
	stack[4] = OTHER_MIDDLE;
	stack[6] = ROOT;
	cr_expect_eq(walk(), BOOKS_NO_NODE);
	cr_expect_eq(walk(), BOOKS_NO_NODE);
}

/* A thread has a slot of one that has ended, whose stack went on where nothing is now. */
Test(exact_native, a_tail_of_another_stack_is_not_read)
{
	say_rules();
	stack[1] = LEAF;
	stack[2] = MIDDLE;
	stack[4] = OTHER_LARGE;
	stack[516] = MIDDLE;
	stack[518] = ROOT;
	cr_expect_eq(frames_of(walk()), 5);
	stack[4] = LARGE;
	cr_expect_eq(frames_of(walk()), 5);
	cr_assert_eq(munmap(stack + WORDS / 2, WORDS / 2 * 8), 0);
	stack_end = stack + WORDS / 2;
	forget_stack(find_thread_slot());
	stack[1] = MIDDLE;
	stack[3] = LEAF;
	stack[4] = ROOT;
	cr_expect_eq(frames_of(walk()), 3);
	stack[1] = LEAF;
	stack[4] = LARGE;
	expect_frames(3);
}

static __attribute__((noinline)) bool is_recorded(void)
{
	return begin_recorded(stack).thread;
}

/* As after a handler that jumps out of the allocator, to a caller that calls it again. */
Test(exact_native, a_call_from_where_one_was_left_is_recorded)
{
	cr_expect(is_recorded());
	cr_expect(is_recorded());
}

/* ---- lists ---- */

#define LISTS 20000

static bool are_published;

/* Each has other code at the address. */
static void *publish_lists(void *known)
{
	struct code_region region = { .region = { .start = 0x1000, .end = 0x2000, .first_page = UNWIND_NO_TABLE } };
	const struct code_list list = { .region = &region, .region_nr = 1 };
	int err = 0;

	for (; region.owner < LISTS && !err; region.owner++)
		err = known_code__publish(known, &list);
	__atomic_store_n(&are_published, true, __ATOMIC_RELEASE);
	return NULL;
}

/* A rule of the list before would be kept for the code of the next one. */
Test(exact_native, the_number_of_replacements_comes_with_its_list)
{
	struct known_code *known;
	uint32_t replaced_nr, early_nr = 0;
	pthread_t thread;

	HEAD->kind = BOOKS_OF_MALLOC;
	HEAD->known_nr = 0;
	open_made_books(&made);
	cr_assert_eq(known_code__open(made.books, 1, &known), 0);
	cr_assert_eq(pthread_create(&thread, NULL, publish_lists, known), 0);
	while (!__atomic_load_n(&are_published, __ATOMIC_ACQUIRE)) {
		replaced_nr = __atomic_load_n(&HEAD->replaced_nr, __ATOMIC_SEQ_CST);
		early_nr += replaced_nr && replaced_nr >= __atomic_load_n(&HEAD->known_nr, __ATOMIC_SEQ_CST);
	}
	pthread_join(thread, NULL);
	cr_expect_eq(early_nr, 0);
	cr_expect_eq(HEAD->replaced_nr, LISTS - 1);
	known_code__close(known);
}
