/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_NATIVE_CALLS_H
#define ALLOCSNAP_EXACT_NATIVE_CALLS_H

/*
 * Records calls of malloc's family: what a preloaded library and injected hooks do before and after the call of the
 * allocator itself. A file that includes it defines, beside what books_writer.h and native_walk.h ask for,
 *
 *	static struct books_thread *own_thread_slot(void);	NULL: it has no slot
 */

#include "exact/native_walk.h"

/* ---- counts ---- */

static __attribute__((noinline)) void flush_count(struct books_count *count, uint32_t node)
{
	const struct books_count was = *count;
	struct books_totals *of;

	*count = (struct books_count){ .node = node };
	if (!was.node)
		return;
	of = totals_of(was.node);
	__atomic_fetch_add(&of->allocations, was.allocations, __ATOMIC_RELAXED);
	__atomic_fetch_add(&of->allocated_bytes, was.allocated_bytes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&of->temporary, was.temporary, __ATOMIC_RELAXED);
	__atomic_fetch_add(&of->temporary_bytes, was.temporary_bytes, __ATOMIC_RELAXED);
}

static inline struct books_count *own_count(struct books_thread *thread, uint32_t node)
{
	struct books_count *count = &thread->native.count[node % BOOKS_COUNTS];

	if (unlikely(count->node != node))
		flush_count(count, node);
	return count;
}

static inline uint32_t count_allocation(const struct hook *hook, uint64_t size, bool is_raw)
{
	uint32_t node = walk_native(hook->thread, hook->frame);
	struct books_count *count = own_count(hook->thread, node);

	(void)is_raw;
	count->allocations++;
	count->allocated_bytes += size;
	return node;
}

static inline void count_temporary(struct books_thread *thread, uint32_t node, uint64_t size, bool is_raw)
{
	struct books_count *count = own_count(thread, node);

	(void)is_raw;
	count->temporary++;
	count->temporary_bytes += size;
}

static void retire_code(uint64_t address)
{
	(void)address; /* no block of malloc's books has code */
}

#include "exact/books_blocks.h"

/* ---- calls ---- */

#define IN_NEXT 1 /* in books_thread.inside: the thread is in the next allocator, which may call itself by our names */

/* A signal handler has interrupted a hook, and not the next allocator. */
static __attribute__((noinline)) void count_amid_hook(const struct books_thread *thread)
{
	if (thread && thread->inside && !(thread->inside & IN_NEXT))
		count_books_loss(BOOKS_LOST_AMID);
}

static inline void enter_next(const struct hook *hook)
{
	*(volatile uint64_t *)&hook->thread->inside = hook->thread->inside | IN_NEXT;
}

static inline void leave_next(const struct hook *hook)
{
	*(volatile uint64_t *)&hook->thread->inside = hook->thread->inside & ~(uint64_t)IN_NEXT;
}

/*
 * A handler has jumped out of the hook that the thread seemed to be in: the thread is on its own stack, and the hook was
 * called farther down (a stack has overflown there), or on another stack. A handler that has interrupted a hook is below it,
 * or on an alternate stack.
 */
static __attribute__((noinline)) bool is_left_behind(const struct books_thread *thread)
{
	uint64_t stack = hook_stack_pointer(), inside = thread->inside, end = end_of_lasting_stack(&thread->native, stack);

	return inside && end && inside - stack >= end - stack;
}

static inline struct hook begin_hook_of(struct books_thread *thread)
{
	struct hook hook = begin_hook_in(thread);

	if (likely(hook.thread) || !thread || !is_left_behind(thread))
		return hook;
	forget_half_written(thread);
	*(volatile uint64_t *)&thread->inside = 0;
	return begin_hook_in(thread);
}

static inline struct hook begin_recorded(const uint64_t *frame)
{
	struct books_thread *thread;
	struct hook hook = {};

	if (unlikely(!BOOKS_ARE_ON))
		return hook;
	thread = own_thread_slot();
	hook = begin_hook_of(thread);
	hook.frame = frame;
	if (likely(hook.thread))
		enter_next(&hook);
	else
		count_amid_hook(thread);
	return hook;
}

static inline uint64_t end_recorded(const struct hook *hook, uint64_t block, uint64_t size)
{
	if (unlikely(!hook->thread))
		return block;
	leave_next(hook);
	if (likely(block))
		enter_in_books(hook, block, size, true);
	end_hook(hook);
	return block;
}

/* A call that frees this block, before the allocator has it back. */
static inline void leave_freed(uint64_t address)
{
	struct books_thread *thread;
	struct hook hook;
	uint64_t size;

	if (unlikely(!BOOKS_ARE_ON))
		return;
	thread = own_thread_slot();
	hook = begin_hook_of(thread);
	if (likely(hook.thread)) {
		leave_block(&hook, address, &size, true);
		end_hook(&hook);
	} else {
		leave_amid_hook(address, true);
	}
}

/* The block that realloc() was given. */
struct left_block {
	uint64_t address, word, size; /* word 0: it was not in the books */
};

/* If the process is killed in the call, the block was not freed. */
static inline void keep_given(struct books_thread *thread, const struct left_block *old)
{
	thread->native.given.word = old->word;
	thread->native.given.size = old->size;
	__atomic_store_n(&thread->native.given.address, old->address, __ATOMIC_RELEASE);
}

/* Before the call: another thread may get the old address before it returns. */
static inline struct left_block leave_old(const struct hook *hook, uint64_t address)
{
	struct left_block old = { .address = address };

	if (!address)
		return old;
	if (unlikely(!hook->thread)) {
		if (BOOKS_ARE_ON)
			leave_amid_hook(address, true);
		return old;
	}
	leave_next(hook);
	old.word = leave_block(hook, address, &old.size, true);
	if (likely(old.word))
		keep_given(hook->thread, &old);
	enter_next(hook);
	return old;
}

/* keeps_old: a call that fails has not freed it. */
static inline uint64_t end_realloc(const struct hook *hook, const struct left_block *old, uint64_t block, uint64_t size,
				   bool keeps_old)
{
	if (unlikely(!hook->thread))
		return block;
	leave_next(hook);
	__atomic_store_n(&hook->thread->native.given.address, 0, __ATOMIC_RELEASE);
	if (likely(block))
		enter_in_books(hook, block, size, true);
	else if (old->word && keeps_old)
		put_back(hook, old->address, old->word, old->size);
	end_hook(hook);
	return block;
}

/* After the call of xallocx(): the block is where it was, with another size if there was room. */
static inline void end_resize(const struct hook *hook, uint64_t block, uint64_t size, bool is_resized)
{
	const struct left_block old = is_resized && hook->thread ? leave_old(hook, block) : (struct left_block){};

	end_realloc(hook, &old, is_resized ? block : 0, size, false);
}

#endif
