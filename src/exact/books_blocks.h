/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_BOOKS_BLOCKS_H
#define ALLOCSNAP_EXACT_BOOKS_BLOCKS_H

/*
 * Enters blocks into the books, and takes them out. A file that includes it first defines
 *
 *	static uint32_t count_allocation(const struct hook *hook, uint64_t size, bool is_raw);
 *	static void count_temporary(struct books_thread *thread, uint32_t node, uint64_t size, bool is_raw);
 *	static void retire_code(uint64_t address);
 *
 * The first one walks the stack, and returns its node. The last one is for blocks that have BLOCK_IS_CODE. is_raw: several
 * threads may count at once.
 */

#include "exact/books_writer.h"

/* The allocator gives an address that the books still have: the free before was not seen. */
static __attribute__((noinline)) void forget_unseen_free(uint64_t address, uint64_t *place)
{
	struct books_large *large = place ? NULL : find_large(address);
	uint64_t word = large ? large->word : *place;

	if (word & BLOCK_IS_LIVE)
		count_books_loss(BOOKS_UNSEEN_FREES);
	if (word & BLOCK_IS_CODE)
		retire_code(address);
	if (large)
		__atomic_store_n(&large->address, 0, __ATOMIC_RELEASE);
}

/* One call of many shows what recording costs, and none of a thread's first calls. 0: this one is not timed. */
static inline uint64_t begin_timing(uint64_t nr)
{
	return unlikely(nr % BOOKS_TIMED_EACH == BOOKS_TIMED_EACH - 1) ? __builtin_ia32_rdtsc() : 0;
}

static __attribute__((noinline)) void end_timing(struct books_thread *thread, uint64_t begun)
{
	uint64_t cycles = __builtin_ia32_rdtsc() - begun;

	thread->cycles += cycles < BOOKS_TIMED_MOST ? cycles : BOOKS_TIMED_MOST;
}

/* Once the allocator has given it. */
static inline void enter_in_books(const struct hook *hook, uint64_t address, uint64_t size, bool is_raw)
{
	struct books_thread *thread = hook->thread;
	uint64_t word = BLOCK_IS_LIVE | (uint64_t)thread->slot << BLOCK_THREAD_SHIFT | hook->now << BLOCK_EPOCH_SHIFT, *place;
	struct books_large block = { address, 0, size };
	uint64_t begun = begin_timing(thread->allocations);
	uint32_t node;

	place = likely(is_small(address, size)) ? first_word(address) : NULL;
	__builtin_prefetch(place, 1); /* it comes while the stack is walked */
	node = count_allocation(hook, size, is_raw);
	if (unlikely(node == BOOKS_NO_NODE))
		count_books_loss(BOOKS_LOST_TRACEBACKS);
	word |= node;
	if (likely(place))
		place = word_to_write(address, place);
	if (place ? unlikely(is_word_of(*place, address)) : unlikely(find_large(address) != NULL))
		forget_unseen_free(address, place);
	block.word = word;
	if (likely(place))
		write_small_word(address, place, small_word_of(&block), is_raw);
	else if (!put_in_books(&block))
		count_books_loss(BOOKS_LOST_BLOCKS);
	thread->latest = address;
	thread->allocations++;
	if (unlikely(begun))
		end_timing(thread, begun);
}

/* A block of the snapshot that is being read. */
static __attribute__((noinline)) void hand_over(const struct hook *hook, uint64_t address, uint64_t word, uint64_t size)
{
	uint32_t nr = __atomic_fetch_add(&HEAD->handed_nr, 1, __ATOMIC_RELAXED);

	if (nr >= BOOKS_HANDED_MAX) {
		__atomic_store_n(&HEAD->handed_nr, BOOKS_HANDED_MAX, __ATOMIC_RELAXED);
		return count_books_loss(BOOKS_LOST_HANDED);
	}
	size |= hook->now >> 32 << BOOKS_HANDED_SHIFT;
	BOOKS_AS(struct books_large, BOOKS_AT_HANDED)[nr] = (struct books_large){ address, word, size };
}

/* Each entry that is taken out passes here. */
static inline void leave_word(const struct hook *hook, uint64_t address, uint64_t word, uint64_t size, bool is_raw)
{
	if (unlikely(word & BLOCK_IS_CODE))
		retire_code(address);
	if (unlikely(BLOCK_EPOCH(word) < hook->now >> 32))
		hand_over(hook, address, word, size);
	if (address == hook->thread->latest)
		count_temporary(hook->thread, BLOCK_NODE(word), size, is_raw);
}

static __attribute__((noinline)) uint64_t leave_slowly(const struct hook *hook, uint64_t address, uint64_t *ret_size, bool is_raw)
{
	struct books_large *large = find_large(address);
	uint64_t word = large ? large->word : 0;

	if (!large)
		goto unknown;
	*ret_size = large->size;
	leave_word(hook, address, word, large->size, is_raw);
	__atomic_store_n(&large->address, 0, __ATOMIC_RELEASE);
	if (word & BLOCK_IS_LIVE) {
		hook->thread->frees++;
		return word;
	}
unknown:
	if (address != hook->thread->passed)
		hook->thread->unknown_frees++;
	hook->thread->passed = 0;
	return 0;
}

/* Before the allocator has it back: then another thread may get it. Returns its word; 0: it was not in the books. */
static inline uint64_t leave_block(const struct hook *hook, uint64_t address, uint64_t *ret_size, bool is_raw)
{
	uint64_t begun = begin_timing(hook->thread->frees), *place = small_word(address), word = likely(place) ? *place : 0;

	if (unlikely(!(word & BLOCK_IS_LIVE)))
		return leave_slowly(hook, address, ret_size, is_raw);
	*ret_size = BLOCK_SIZE(word);
	leave_word(hook, address, word, *ret_size, is_raw);
	__atomic_store_n(place, 0, __ATOMIC_RELAXED);
	hook->thread->frees++;
	if (unlikely(begun))
		end_timing(hook->thread, begun);
	return word;
}

#define SIZE_BITS (((UINT64_C(1) << BLOCK_SIZE_BITS) - 1) << BLOCK_SIZE_SHIFT)

/* The block is there as it was, and was not freed. */
static __attribute__((noinline)) void put_back(const struct hook *hook, uint64_t address, uint64_t word, uint64_t size)
{
	hook->thread->frees--;
	word &= ~(SIZE_BITS | BLOCK_IS_ODD | BLOCK_IS_CODE) & ((UINT64_C(1) << BLOCK_EPOCH_SHIFT) - 1);
	if (!put_in_books(&(struct books_large){ address, word | hook->now << BLOCK_EPOCH_SHIFT, size }))
		count_books_loss(BOOKS_LOST_BLOCKS);
}

/* In a thread without a slot. */
static __attribute__((noinline)) void leave_uncounted(const struct hook *hook, uint64_t address)
{
	uint64_t *place = small_word(address);
	struct books_large *large = place && *place & BLOCK_IS_LIVE ? NULL : find_large(address);
	uint64_t word = large ? large->word : *place;

	if (word & BLOCK_IS_CODE)
		retire_code(address);
	if (BLOCK_EPOCH(word) < hook->now >> 32)
		hand_over(hook, address, word, large ? large->size : BLOCK_SIZE(word));
	__atomic_store_n(large ? &large->address : place, 0, __ATOMIC_RELEASE);
}

/*
 * A free amid another hook: tracemalloc drops a trace there, or a signal handler frees. The block of the outer call is not in
 * the books then. Or a free of a thread without a slot.
 */
static __attribute__((noinline)) void leave_amid_hook(uint64_t address, bool is_raw)
{
	struct hook hook = { .now = *(volatile uint64_t *)&HEAD->now };
	uint64_t *place = small_word(address), size;

	if (hook.now == BOOKS_OFF || !(place && *place ? *place & BLOCK_IS_LIVE : find_large(address) != NULL))
		return;
	hook.thread = find_thread_slot();
	if (hook.thread)
		leave_block(&hook, address, &size, is_raw);
	else
		leave_uncounted(&hook, address);
}

#endif
