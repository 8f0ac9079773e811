// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Debug hooks in front of CPython's allocators: they ask for 24 bytes more, and give out what begins 16 bytes later. */
#include "fake_python.h"

#define HEAD 16
#define MORE 24

static struct type plain;
static const char object_letter = 'o', raw_letter = 'r'; /* what the contexts begin with */

static __u64 begin_hooked(__u32 class)
{
	struct python_process *told;

	python_begin_world(true);
	told = &book_of(process)->python;
	told->hook_bytes = MORE;
	told->hook_head = HEAD;
	pool_use(pool_at(0), class);
	return *free_list(class);
}

static void hook_call(__u32 row, const char *context, __u64 argument)
{
	pass_place(row, (struct pt_regs){ .di = (__u64)context, .si = argument });
}

BOOK_TEST(python_hooks, small_block_has_the_size_that_was_asked_for)
{
	__u64 block = begin_hooked(2);

	object_malloc(17); /* 41 bytes */
	LIVE(block, 17);
	object_free(block + HEAD);
	GONE(block);
	expect(current_bytes, 0);
	object_malloc(0);
	LIVE((__u64)pool_at(0) + 48, 0);
}

BOOK_TEST(python_hooks, block_that_becomes_large_is_the_heaps)
{
	static char heap[3 * POOL];
	__u64 first = (__u64)heap + POOL, second = first + 1024;

	begin_hooked(31);
	object_malloc(489); /* 513 bytes: the raw domain's hook comes by, too */
	hook_call(ROW_HOOK, &raw_letter, 489 + MORE);
	cr_expect(heap_call(SHAPE_MALLOC, 489 + 2 * MORE, 0, first), "not awaited");
	LIVE(first, 489);
	object_realloc(first + 2 * HEAD, 600);
	hook_call(ROW_HOOK, &raw_letter, 600 + MORE);
	cr_expect(heap_call(SHAPE_REALLOC, first, 600 + 2 * MORE, second), "not awaited");
	LIVE(second, 600);
	GONE(first);
	object_free(second + 2 * HEAD);
	hook_call(ROW_HOOK_FREE, &raw_letter, second + HEAD);
	GONE(second);
	expect(unknown_frees, 0);
}

BOOK_TEST(python_hooks, realloc_stays_as_the_larger_block_does)
{
	__u64 block = begin_hooked(2);

	object_malloc(17);
	object_realloc(block + HEAD, 24); /* 48 bytes: all of it */
	LIVE(block, 24);
	pool_use(pool_at(1), 3);
	object_realloc(block + HEAD, 25);
	LIVE((__u64)pool_at(1) + 48, 25);
	GONE(block);
}

BOOK_TEST(python_hooks, block_of_a_new_arena_is_of_the_larger_class)
{
	begin_hooked(0);
	usable_arenas = 0;
	object_malloc(40);
	pool_use(pool_at(2), 3); /* of 64 bytes */
	*free_list(3) = (__u64)pool_at(2) + 112;
	object_malloc(40);
	LIVE((__u64)pool_at(2) + 48, 40);
	LIVE((__u64)pool_at(2) + 112, 40);
}

BOOK_TEST(python_hooks, object_begins_behind_the_head)
{
	__u64 block = begin_hooked(3);
	struct object *object = (struct object *)(block + HEAD);

	object_malloc(40);
	object->type = (__u64)&plain;
	raw_malloc(700); /* the thread does something else */
	frames[0].code = (__u64)&codes[1];
	frames[0].instruction = (__u64)codes[1].instruction;
	object_begins((__u64)object);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block)->pc[0]), 2, "the code that makes the object");
}

BOOK_TEST(python_hooks, raw_hook_counts_if_its_context_says_so)
{
	begin_hooked(0);
	hook_call(ROW_HOOK, &object_letter, 700); /* the hook of another domain has called it */
	cr_expect(!heap_call(SHAPE_MALLOC, 700 + MORE, 0, 0x7000), "recorded twice");
	hook_call(ROW_HOOK, &raw_letter, 700);
	cr_expect(heap_call(SHAPE_MALLOC, 700 + MORE, 0, 0x7000), "not awaited");
	LIVE(0x7000, 700);
	hook_call(ROW_HOOK_FREE, &object_letter, 0x7000 + HEAD);
	LIVE(0x7000, 700);
	hook_call(ROW_HOOK_FREE, &raw_letter, 0x7000 + HEAD);
	GONE(0x7000);
}
