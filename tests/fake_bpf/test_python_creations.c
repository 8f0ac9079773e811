// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause


#include "fake_python.h"

/* Objects that begin: in new blocks, and in blocks that a free list has kept. */

extern __u64 epoch, cut;

#define HAS_GC (1 << 14)
#define HAS_DICT (1 << 4)
#define HAS_WEAK_REFERENCES (1 << 3)

static struct type plain, collected = { .flags = HAS_GC };

static __u64 block(void)
{
	return (__u64)pool_at(0) + 48;
}

/* A block from code 0; then the thread runs code 1. */
static void make_block(__u64 before, struct type *type)
{
	struct object *object = (struct object *)(block() + before);

	python_begin_world(true);
	pool_use(pool_at(0), 3);
	object_malloc(64);
	object->type = (__u64)type;
	raw_malloc(700); /* the thread does something else */
	frames[0].code = (__u64)&codes[1];
	frames[0].instruction = (__u64)&codes[1].instruction[7];
}

static __u32 code_of_block(void)
{
	return PYTHON_FRAME_CODE(traceback_of(block())->pc[0]);
}

ACCOUNT_TEST(python_creations, object_from_a_free_list_has_its_own_traceback)
{
	struct block before;

	make_block(0, &plain);
	before = *block_in(process, LAYER_POOL, block());
	expect_same(code_of_block(), 1, "the code that allocates");
	object_begins(block());
	LIVE(block(), 64);
	expect_same(code_of_block(), 2, "the code that makes the object");
	expect_same(PYTHON_FRAME_INSTRUCTION(traceback_of(block())->pc[0]), 7, "its instruction");
	cr_expect_gt(block_in(process, LAYER_POOL, block())->birth_ns, before.birth_ns);
	expect(allocations, 1);
	expect(frees, 0);
	expect(current_blocks, 1);
	object_free(block());
	GONE(block());
	expect(frees, 1);
}

ACCOUNT_TEST(python_creations, block_begins_before_an_object_as_its_type_says)
{
	static struct type with_dict = { .flags = HAS_GC | HAS_DICT }, with_weak = { .flags = HAS_WEAK_REFERENCES };
	static const struct {
		__u64 before;
		struct type *type;
	} cases[] = { { 16, &collected }, { 48, &with_dict }, { 32, &with_weak }, { 0, &plain } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		make_block(cases[i].before, cases[i].type);
		object_begins(block() + cases[i].before);
		expect_same(code_of_block(), 2, "the code that makes the object");
		object_free(block());
	}
}

ACCOUNT_TEST(python_creations, new_block_keeps_its_traceback_once)
{
	python_begin_world(true);
	pool_use(pool_at(0), 3);
	object_malloc(64);
	((struct object *)block())->type = (__u64)&plain;
	frames[0].code = (__u64)&codes[1];
	frames[0].instruction = (__u64)codes[1].instruction;
	object_begins(block());
	expect_same(code_of_block(), 1, "no walk: the block is new");
	object_begins(block());
	expect_same(code_of_block(), 2, "from a free list");
}

ACCOUNT_TEST(python_creations, block_that_was_freed_is_not_new)
{
	struct object *object = (struct object *)block();

	python_begin_world(true);
	pool_use(pool_at(0), 3);
	object->type = (__u64)&plain;
	object_malloc(64);
	object_free(block());
	object_begins(block());
	GONE(block());
	expect(allocations, 1);
}

ACCOUNT_TEST(python_creations, objects_in_blocks_that_are_not_in_the_account_change_nothing)
{
	static struct object older = { 1, (__u64)&plain };

	make_block(0, &plain);
	object_begins((__u64)&older);
	GONE((__u64)&older);
	expect(allocations, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(python_creations, objects_that_cannot_be_read_are_a_loss)
{
	static struct object wrong = { 1, 8 };

	make_block(0, &plain);
	object_begins(8);
	expect_loss(python_calls_unread, 1);
	object_begins((__u64)&wrong);
	expect_loss(python_calls_unread, 2);
}

ACCOUNT_TEST(python_creations, objects_before_the_layout_is_known_are_a_loss)
{
	python_begin_world(false);
	object_begins(block());
	expect_loss(python_calls_early, 1);
}

ACCOUNT_TEST(python_creations, block_of_a_new_arena_is_found_first)
{
	python_begin_world(true);
	usable_arenas = 0;
	object_malloc(40);
	pool_use(pool_at(2), 2);
	*free_list(2) = (__u64)pool_at(2) + 96;
	((struct object *)((__u64)pool_at(2) + 48))->type = (__u64)&plain;
	object_begins((__u64)pool_at(2) + 48);
	LIVE((__u64)pool_at(2) + 48, 40);
}

/* A snapshot has the block once: as it was at its instant. */
ACCOUNT_TEST(python_creations, block_of_an_earlier_epoch_is_handed_over)
{
	struct handed_key key;
	struct handed_block *handed;

	make_block(0, &plain);
	key = (struct handed_key){ block_key_of(block(), book_of(process)->image, LAYER_POOL),
				   block_in(process, LAYER_POOL, block())->birth_ns };
	fake_map_resize(&handed_blocks, 4);
	cut = epoch++;
	object_begins(block());
	handed = bpf_map_lookup_elem(&handed_blocks, &key);
	cr_assert(handed, "not handed over");
	expect_same(handed->block.size, 64, "its size");
	expect_same(block_in(process, LAYER_POOL, block())->epoch, epoch, "the new one's epoch");
	cut = 0;
}

/* --sample pools: which pools CPython's allocator takes, as samples. */

extern volatile struct settings settings; /* see bpf_alloc.c */

static void begin_growth(void)
{
	settings.has_pools = true;
	python_begin_world(true);
}

ACCOUNT_TEST(python_growth, pool_is_a_sample_that_stands_for_all_its_bytes)
{
	const struct block *block;

	begin_growth();
	pool_opens(0x8000, 3);
	LIVE(0x8000, 64);
	block = block_in(process, LAYER_POOL, 0x8000);
	expect_same(block->weight, POOL, "its weight");
	expect_same(PYTHON_FRAME_CODE(traceback_of(0x8000)->pc[0]), 1, "the code that needed it");
	expect(allocations, POOL / 64);
	expect(allocated_bytes, POOL);
	expect(current_blocks, POOL / 64);
	expect(current_bytes, POOL);
	expect(sampled_blocks, 1);
	pool_closes(0x8000);
	GONE(0x8000);
	expect(current_blocks, 0);
	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
	expect(temporary_blocks, 0);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(python_growth, pool_comes_and_goes_for_other_sizes)
{
	begin_growth();
	pool_opens(0x8000, 0);
	LIVE(0x8000, 16);
	pool_closes(0x8000);
	pool_opens(0x8000, 31);
	LIVE(0x8000, 512);
	expect(current_bytes, POOL);
	expect(sampled_blocks, 1);
}

ACCOUNT_TEST(python_growth, older_pool_that_closes_is_an_unknown_free)
{
	begin_growth();
	pool_closes(0x9000);
	expect(unknown_frees, 1);
	expect(frees, 0);
}

ACCOUNT_TEST(python_growth, impossible_size_class_is_counted_as_unread)
{
	begin_growth();
	pool_opens(0x8000, 32);
	pool_opens(0, 3);
	GONE(0x8000);
	expect_loss(python_calls_unread, 2);
}

ACCOUNT_TEST(python_growth, limits_of_size_are_those_of_the_objects)
{
	choose_blocks((struct choice){ .min_size = 65, .max_size = 128 });
	begin_growth();
	pool_opens(0x8000, 3);
	pool_opens(0xa000, 4);
	pool_opens(0xb000, 8);
	GONE(0x8000);
	LIVE(0xa000, 80);
	GONE(0xb000);
}

ACCOUNT_TEST(python_growth, large_block_stands_for_itself)
{
	begin_growth();
	raw_malloc(700);
	heap_call(SHAPE_MALLOC, 700, 0, 0x70000);
	LIVE(0x70000, 700);
	expect(current_blocks, 1);
	expect(current_bytes, 700);
	expect(sampled_blocks, 1);
	object_free(0x70000);
	expect(sampled_blocks, 0);
}

ACCOUNT_TEST(python_growth, pool_of_another_interpreter_is_counted)
{
	struct python_process *python;

	begin_growth();
	python = &book_of(process)->python;
	python->in_interpreter = 1;
	thread_state.interpreter = main_interpreter + 8;
	pool_opens(0x8000, 3);
	GONE(0x8000);
	expect_loss(python_interpreters, 1);
}

ACCOUNT_TEST(python_growth, code_that_ends_gives_its_address_to_other_code)
{
	begin_growth();
	pool_opens(0x8000, 3);
	pass_place(ROW_CODE_END, (struct pt_regs){ .di = (__u64)&codes[0] });
	pool_opens(0xa000, 3);
	expect_same(PYTHON_FRAME_CODE(traceback_of(0x8000)->pc[0]), 1, "the first code");
	expect_same(PYTHON_FRAME_CODE(traceback_of(0xa000)->pc[0]), 2, "the next code at the address");
	expect(unknown_frees, 0);
}

/* Debug hooks in front of CPython's allocators: they ask for 24 bytes more, and give out what begins 16 bytes later. */

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

ACCOUNT_TEST(python_hooks, small_block_has_the_size_that_was_asked_for)
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

ACCOUNT_TEST(python_hooks, block_that_becomes_large_is_the_heaps)
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

ACCOUNT_TEST(python_hooks, realloc_stays_as_the_larger_block_does)
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

ACCOUNT_TEST(python_hooks, block_of_a_new_arena_is_of_the_larger_class)
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

ACCOUNT_TEST(python_hooks, object_begins_behind_the_head)
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

ACCOUNT_TEST(python_hooks, raw_hook_counts_if_its_context_says_so)
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
