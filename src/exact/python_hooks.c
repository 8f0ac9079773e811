// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Functions that stand in front of a CPython's allocators (python_hooks.h), and enter each block into the books. */
#include "exact/python_walk.h"

/* ---- counts ---- */

/* Several threads may use the raw domain at once. */
static __attribute__((noinline)) uint32_t count_raw(struct books_thread *thread, uint32_t node, uint64_t size)
{
	uint32_t at = (node * MULTIPLIER >> 32) % BOOKS_CHILDREN;
	struct books_child *child = &thread->child[at];
	struct books_totals *totals;

	if (node == BOOKS_NO_NODE)
		return node;
	if (child->instruction != BOOKS_RAW_WORD || child->parent != node)
		*child = (struct books_child){ BOOKS_RAW_WORD, node, find_or_add_node(node, BOOKS_RAW_WORD) };
	node = child->node;
	totals = totals_of(node);
	__atomic_fetch_add(&totals->allocations, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&totals->allocated_bytes, size, __ATOMIC_RELAXED);
	return node;
}

/* The node of a block that has just been allocated. */
static inline uint32_t count_allocation(const struct hook *hook, uint64_t size, bool is_raw)
{
	uint32_t node = walk(hook->thread);
	struct books_totals *totals;

	if (is_raw)
		return count_raw(hook->thread, node, size);
	totals = totals_of(node);
	totals->allocations++;
	totals->allocated_bytes += size;
	return node;
}

static __attribute__((noinline)) void count_temporary(struct books_thread *thread, uint32_t id, uint64_t size, bool is_raw)
{
	struct books_totals *totals = totals_of(id);

	(void)thread;
	if (is_raw) {
		__atomic_fetch_add(&totals->temporary, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&totals->temporary_bytes, size, __ATOMIC_RELAXED);
	} else {
		totals->temporary++;
		totals->temporary_bytes += size;
	}
}

#include "exact/books_blocks.h"

/* ---- the hooks: their context belongs to the functions that were there, so each pointer can be replaced by itself ---- */

/*
 * A call that is not recorded jumps to the function: it leaves no return address, so an ejector finds all threads that come
 * back to this file by `inside`.
 */

typedef void *(*malloc_fn)(void *ctx, size_t size);
typedef void *(*calloc_fn)(void *ctx, size_t nr, size_t size);
typedef void *(*realloc_fn)(void *ctx, void *block, size_t size);
typedef void (*free_fn)(void *ctx, void *block);

#define OLD(type, domain, operation) ((type)python_hooks.old[domain][operation])

static inline void *hook_malloc(int domain, void *ctx, size_t size)
{
	const struct hook hook = begin_hook();
	void *block;

	if (unlikely(!hook.thread))
		return OLD(malloc_fn, domain, PYTHON_MALLOC)(ctx, size);
	block = OLD(malloc_fn, domain, PYTHON_MALLOC)(ctx, size);
	if (likely(block))
		enter_in_books(&hook, (uint64_t)block, size, domain == PYTHON_RAW);
	end_hook(&hook);
	return block;
}

static inline void *hook_calloc(int domain, void *ctx, size_t nr, size_t size)
{
	const struct hook hook = begin_hook();
	void *block;

	if (unlikely(!hook.thread))
		return OLD(calloc_fn, domain, PYTHON_CALLOC)(ctx, nr, size);
	block = OLD(calloc_fn, domain, PYTHON_CALLOC)(ctx, nr, size);
	if (likely(block))
		enter_in_books(&hook, (uint64_t)block, nr * size, domain == PYTHON_RAW);
	end_hook(&hook);
	return block;
}

/* Another thread may get the old address before the call returns. */
static inline void *hook_realloc(int domain, void *ctx, void *was, size_t size)
{
	const struct hook hook = begin_hook();
	uint64_t old_size, old;
	void *block;

	if (unlikely(!hook.thread))
		return OLD(realloc_fn, domain, PYTHON_REALLOC)(ctx, was, size);
	old = was ? leave_block(&hook, (uint64_t)was, &old_size, domain == PYTHON_RAW) : 0;
	block = OLD(realloc_fn, domain, PYTHON_REALLOC)(ctx, was, size);
	if (likely(block))
		enter_in_books(&hook, (uint64_t)block, size, domain == PYTHON_RAW);
	else if (old)
		put_back(&hook, (uint64_t)was, old, old_size);
	end_hook(&hook);
	return block;
}

/* pymalloc frees a larger block through the table of the raw domain, whose hook is called for it once more. */
static inline void hook_free(int domain, void *ctx, void *block)
{
	const struct hook hook = likely(block) ? begin_hook() : (struct hook){};
	uint64_t size = BOOKS_SMALL_MAX + 1; /* of one that is not known */

	if (likely(hook.thread)) {
		leave_block(&hook, (uint64_t)block, &size, domain == PYTHON_RAW);
		if (domain != PYTHON_RAW && unlikely(size > BOOKS_SMALL_MAX))
			hook.thread->passed = (uint64_t)block;
		end_hook(&hook);
	}
	if (unlikely(!hook.thread && block && python_hooks_on.is_on))
		leave_amid_hook((uint64_t)block, domain == PYTHON_RAW);
	OLD(free_fn, domain, PYTHON_FREE)(ctx, block);
}

/* ---- objects, from 3.13 on ---- */

/* A block begins before its object if the type says so. */
static inline uint64_t block_with_object(uint64_t object)
{
	const struct python_offsets *offsets = &SETTINGS->offsets;
	uint64_t flags = word_at(word_at(object + offsets->object_type) + PYTHON_TYPE_FLAGS);

	if (flags & PYTHON_TYPE_HAS_GC)
		object -= offsets->object_header;
	return flags & PYTHON_TYPE_HAS_PREHEADER ? object - offsets->object_preheader : object;
}

/*
 * A free list has kept the block for this object, so that it stayed live for the allocator. As in tracemalloc it gets the
 * traceback of now, and its birth and thread. One that is not in the books is an older one.
 */
static __attribute__((noinline)) void enter_anew(const struct hook *hook, uint64_t address)
{
	struct books_thread *thread = hook->thread;
	uint64_t begun = begin_timing(thread->recreations++), *place = small_word(address);
	struct books_large *large = place && *place ? NULL : find_large(address);
	uint64_t *at = large ? &large->word : place, word = at ? *at : 0;
	uint32_t node;

	if (!(word & BLOCK_IS_LIVE))
		return;
	node = walk(thread);
	if (unlikely(node == BOOKS_NO_NODE))
		count_books_loss(BOOKS_LOST_TRACEBACKS);
	if (unlikely(BLOCK_EPOCH(word) < hook->now >> 32))
		hand_over(hook, address, word, large ? large->size : BLOCK_SIZE(word));
	if (address == thread->latest)
		thread->latest = 0;
	word &= SIZE_BITS | BLOCK_IS_ODD | BLOCK_IS_CODE;
	word |= BLOCK_IS_LIVE | node | (uint64_t)thread->slot << BLOCK_THREAD_SHIFT | hook->now << BLOCK_EPOCH_SHIFT;
	__atomic_store_n(at, word, __ATOMIC_RELAXED);
	if (unlikely(begun))
		end_timing(thread, begun);
}

/* The first object in a block that the thread has just got has its traceback. */
static __attribute__((noinline)) void note_object(uint64_t object)
{
	const struct hook hook = begin_hook();
	uint64_t address;

	if (unlikely(!hook.thread))
		return;
	address = block_with_object(object);
	if (likely(address == hook.thread->latest && hook.thread->created != hook.thread->allocations))
		hook.thread->created = hook.thread->allocations;
	else
		enter_anew(&hook, address);
	end_hook(&hook);
}

typedef int (*tracer_fn)(void *object, int event, void *data);

#define OBJECT_BEGINS 0 /* PyRefTracer_CREATE */

HIDDEN int hook_reference(void *object, int event, void *data)
{
	if (unlikely(event == OBJECT_BEGINS)) /* but what is not has no need of its stack */
		note_object((uint64_t)object);
	return unlikely(python_hooks.old_tracer) ? ((tracer_fn)python_hooks.old_tracer)(object, event, data) : 0;
}

/* ---- of all domains ---- */

#define HOOKS(name, domain) \
	HIDDEN void *hook_##name##_malloc(void *ctx, size_t size) { return hook_malloc(domain, ctx, size); } \
	HIDDEN void *hook_##name##_calloc(void *ctx, size_t nr, size_t size) { return hook_calloc(domain, ctx, nr, size); } \
	HIDDEN void *hook_##name##_realloc(void *ctx, void *was, size_t size) { return hook_realloc(domain, ctx, was, size); } \
	HIDDEN void hook_##name##_free(void *ctx, void *block) { hook_free(domain, ctx, block); }

HOOKS(raw, PYTHON_RAW)
HOOKS(mem, PYTHON_MEM)
HOOKS(object, PYTHON_OBJECT)
