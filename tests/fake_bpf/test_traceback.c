// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The part of a stack that is kept, and its key. */
#include "target.h"
#include <stdint.h>

__u64 traceback_hash(struct traceback *traceback, __u64 image);

#define FRAME_NR 100

static void deep_stack(__u32 nr)
{
	fake.frame_nr = nr;
	for (__u32 i = 0; i < nr; i++)
		fake.frame[i] = 0x400000 + i;
}

static __u64 key_of(__u64 address)
{
	struct block *block = block_at(address);

	cr_assert(block);
	return block->traceback;
}

ACCOUNT_TEST(traceback, has_the_frames_at_the_return)
{
	struct traceback *traceback;

	stack_is(0x10001, 0x10009);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	stack_is(0x10001, 0x10002, 0x10003);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	traceback = traceback_at(0x1000);
	cr_assert(traceback);
	expect_same(traceback->nframe, 3, "nframe");
	expect_same(traceback->total_nframe, 3, "total_nframe");
	expect_same(traceback->pc[0], 0x10001, "the most recent call");
	expect_same(traceback->pc[2], 0x10003, "the oldest call");
}

ACCOUNT_TEST(traceback, is_cut_at_the_limit_and_keeps_the_total_number_of_frames)
{
	struct traceback *traceback;

	settings_set(10, 0);
	deep_stack(FRAME_NR);
	user_malloc(8, 0x1000);

	traceback = traceback_at(0x1000);
	cr_assert(traceback);
	expect_same(traceback->nframe, 10, "nframe");
	expect_same(traceback->total_nframe, FRAME_NR, "total_nframe");
	expect_same(traceback->pc[0], 0x400000, "the most recent call");
}

ACCOUNT_TEST(traceback, of_exactly_the_limit_is_complete)
{
	settings_set(10, 0);
	deep_stack(10);
	user_malloc(8, 0x1000);

	cr_assert(traceback_at(0x1000));
	expect_same(traceback_at(0x1000)->nframe, 10, "nframe");
	expect_same(traceback_at(0x1000)->total_nframe, 10, "total_nframe");
}

ACCOUNT_TEST(traceback, may_have_the_largest_number_of_frames)
{
	settings_set(TRACEBACK_LIMIT_MAX, 0);
	deep_stack(TRACEBACK_LIMIT_MAX + 20);
	user_malloc(8, 0x1000);

	cr_assert(traceback_at(0x1000));
	expect_same(traceback_at(0x1000)->nframe, TRACEBACK_LIMIT_MAX, "nframe");
	expect_same(traceback_at(0x1000)->pc[TRACEBACK_LIMIT_MAX - 1],
		    0x400000 + TRACEBACK_LIMIT_MAX - 1, "the oldest call");
}

ACCOUNT_TEST(traceback, has_its_frames_counted_up_to_512)
{
	settings_set(10, 0);
	deep_stack(FAKE_FRAMES);
	user_malloc(8, 0x1000);

	expect_same(traceback_at(0x1000)->nframe, 10, "nframe");
	expect_same(traceback_at(0x1000)->total_nframe, 512, "total_nframe");
}

ACCOUNT_TEST(traceback, is_the_same_when_the_stack_is_read_in_parts)
{
	__u64 key;

	stack_is(0x10001, 0x10002, 0x10003);
	user_malloc(8, 0x1000);
	key = block_at(0x1000)->traceback;
	fake.fault_address = sp_at(0) + 1024;
	user_malloc(8, 0x2000);
	expect_same(block_at(0x2000)->traceback, key, "key");
}

/* The values, as offsets from the stack pointer, stand for a register that is no frame pointer. */
ACCOUNT_TEST(traceback, is_the_direct_caller_when_there_are_no_frame_pointers)
{
	static const __u64 junk[] = { 4, -8ull, -(1ull << 40), 1ull << 20, 1ull << 47 };
	__u64 address = 0x1000;

	for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++, address += 16) {
		stack_is(0x10001, 0x10002);
		enter(SHAPE_MALLOC, sp_at(1), 8);
		leave_with(SHAPE_MALLOC, sp_at(1), address, sp_at(1) + RET_POPS + junk[i]);
		expect_same(traceback_at(address)->nframe, 1, "nframe");
		expect_same(traceback_at(address)->pc[0], 0x10001, "the direct caller");
	}
}

ACCOUNT_TEST(traceback, ends_when_the_frame_pointer_does_not_rise)
{
	__u64 *record = main_thread->frame_record[3];

	stack_is(0x10001);
	record[0] = (uintptr_t)record;
	record[1] = 0x10002;
	enter(SHAPE_MALLOC, sp_at(1), 8);
	leave_with(SHAPE_MALLOC, sp_at(1), 0x1000, (uintptr_t)record);
	expect_same(traceback_at(0x1000)->nframe, 2, "nframe");
}

ACCOUNT_TEST(traceback, ends_at_a_return_address_in_the_first_page)
{
	stack_is(0x10001, 0x10002, 42, 0x10004);
	user_malloc(8, 0x1000);
	expect_same(traceback_at(0x1000)->nframe, 2, "nframe");
}

ACCOUNT_TEST(traceback, is_shared_by_equal_stacks)
{
	user_malloc(8, 0x1000);
	user_calloc(1, 9, 0x2000);
	thread_run(thread_start(process, 101));
	user_malloc(10, 0x3000);

	expect_same(key_of(0x2000), key_of(0x1000), "key");
	expect_same(key_of(0x3000), key_of(0x1000), "key");
	cr_expect(fake_map_count(&tracebacks) == 1);
}

/* The frames of a shallower stack must not be mixed with what a deeper one left in the scratch. */
ACCOUNT_TEST(traceback, is_the_same_after_a_deeper_stack)
{
	stack_is(0x10001, 0x10002);
	user_malloc(8, 0x1000);
	deep_stack(FRAME_NR);
	user_malloc(8, 0x2000);
	stack_is(0x10001, 0x10002);
	user_malloc(8, 0x3000);

	expect_same(key_of(0x3000), key_of(0x1000), "key");
}

ACCOUNT_TEST(traceback, differs_when_any_frame_differs)
{
	stack_is(0x10001, 0x10002, 0x10003);
	user_malloc(8, 0x1000);
	stack_is(0x10009, 0x10002, 0x10003);
	user_malloc(8, 0x2000);
	stack_is(0x10001, 0x10002, 0x10009);
	user_malloc(8, 0x3000);
	stack_is(0x10001, 0x10002);
	user_malloc(8, 0x4000);
	stack_is(0x10002, 0x10001, 0x10003);
	user_malloc(8, 0x5000);

	cr_expect(fake_map_count(&tracebacks) == 5);
}

ACCOUNT_TEST(traceback, of_two_processes_is_stored_twice)
{
	struct target_process *other = process_start(200);

	process_admit(other);
	user_malloc(8, 0x1000);
	thread_run(thread_start(other, 200));
	user_malloc(8, 0x1000);

	cr_expect(block_of(other, 0x1000)->traceback != key_of(0x1000));
	cr_expect(fake_map_count(&tracebacks) == 2);
}

ACCOUNT_TEST(traceback_hash, depends_on_the_seed)
{
	struct traceback one = { .nframe = 1, .pc = { 0x401000 } };
	__u64 hash = traceback_hash(&one, 1);

	settings_set(TRACEBACK_LIMIT_DEFAULT, 0xabcdef);
	cr_expect(traceback_hash(&one, 1) != hash);
}

ACCOUNT_TEST(traceback_hash, is_never_0)
{
	struct traceback none = {};

	settings_set(TRACEBACK_LIMIT_DEFAULT, 5);
	cr_expect(traceback_hash(&none, 5) != 0); /* seed ^ image is 0 */
	for (__u64 pc = 0; pc < 10000; pc++) {
		struct traceback one = { .nframe = 1, .pc = { pc } };

		cr_expect(traceback_hash(&one, 5) != 0);
	}
}

ACCOUNT_TEST(traceback_hash, does_not_read_past_the_frames)
{
	struct traceback one = { .nframe = ~0u };

	traceback_hash(&one, 1); /* ASan would see it */
}

ACCOUNT_TEST(traceback_hash, depends_on_the_order_of_frames)
{
	struct traceback one = { .nframe = 5, .pc = { 0x401000, 0x402000, 0x403000, 0x404000, 0x405000 } };
	__u64 hash = traceback_hash(&one, 1);

	for (__u32 i = 0; i < one.nframe; i++)
		for (__u32 j = 0; j < i; j++) {
			struct traceback other = one;

			other.pc[i] = one.pc[j];
			other.pc[j] = one.pc[i];
			cr_expect(traceback_hash(&other, 1) != hash, "frames %u and %u", j, i);
		}
}

static int compare(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return (x > y) - (x < y);
}

/* Call sites of one function, as in a loop unrolled: neighbours in every frame and image. */
ACCOUNT_TEST(traceback_hash, has_no_collisions_among_neighbouring_stacks)
{
	enum { SIDE = 16, NR = SIDE * SIDE * SIDE };
	static __u64 hash[NR];

	for (__u32 i = 0; i < NR; i++) {
		struct traceback two = { .nframe = 2 };

		two.pc[0] = 0x401000 + i % SIDE;
		two.pc[1] = 0x402000 + i / SIDE % SIDE;
		hash[i] = traceback_hash(&two, 1 + i / SIDE / SIDE);
	}
	qsort(hash, NR, sizeof(hash[0]), compare);
	for (__u32 i = 1; i < NR; i++)
		cr_assert(hash[i] != hash[i - 1], "two of %d stacks have one key", NR);
}
