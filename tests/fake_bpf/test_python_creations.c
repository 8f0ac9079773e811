// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Objects that begin: in new blocks, and in blocks that a free list has kept. */
#include "fake_python.h"

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

BOOK_TEST(python_creations, object_from_a_free_list_has_its_own_traceback)
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

BOOK_TEST(python_creations, block_begins_before_an_object_as_its_type_says)
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

BOOK_TEST(python_creations, new_block_keeps_its_traceback_once)
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

BOOK_TEST(python_creations, block_that_was_freed_is_not_new)
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

BOOK_TEST(python_creations, objects_in_blocks_that_are_not_in_the_books_change_nothing)
{
	static struct object older = { 1, (__u64)&plain };

	make_block(0, &plain);
	object_begins((__u64)&older);
	GONE((__u64)&older);
	expect(allocations, 1);
	expect(unknown_frees, 0);
}

BOOK_TEST(python_creations, objects_that_cannot_be_read_are_a_loss)
{
	static struct object wrong = { 1, 8 };

	make_block(0, &plain);
	object_begins(8);
	expect_loss(python_calls_unread, 1);
	object_begins((__u64)&wrong);
	expect_loss(python_calls_unread, 2);
}

BOOK_TEST(python_creations, objects_before_the_layout_is_known_are_a_loss)
{
	python_begin_world(false);
	object_begins(block());
	expect_loss(python_calls_early, 1);
}

BOOK_TEST(python_creations, block_of_a_new_arena_is_found_first)
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
BOOK_TEST(python_creations, block_of_an_earlier_epoch_is_handed_over)
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
