/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_BOOKS_WRITER_H
#define ALLOCSNAP_EXACT_BOOKS_WRITER_H

/*
 * Writes the books (books.h) in the process that they belong to: the slot of the running thread, the entries of blocks, and
 * the trie. It is part of one file, which defines before
 *
 *	BOOKS_BASE	where the books are mapped
 *	BOOKS_ARE_ON	whether they are this process's; a forked child has 0 there
 *	BOOKS_OWN_TID	the number of the thread
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exact/books.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define HIDDEN __attribute__((visibility("hidden")))
#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

#define BOOKS_AS(type, at) ((type *)(BOOKS_BASE + (at)))
#define HEAD BOOKS_AS(struct books_head, BOOKS_AT_HEAD)
#define NODES BOOKS_AS(struct books_node, BOOKS_AT_NODES)

#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)
#define TRIES 64 /* places of a hash that are looked at */

static void count_books_loss(enum books_loss loss)
{
	__atomic_fetch_add(&HEAD->lost[loss], 1, __ATOMIC_RELAXED);
}

static uint64_t word_at(uint64_t address)
{
	return __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
}

/* ---- threads ---- */

/* Threads of now have different ones; a later thread gets the one of a thread that has ended. */
static inline uint64_t own_thread_pointer(void)
{
	uint64_t pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

static inline struct books_thread *thread_slot(uint32_t slot)
{
	return BOOKS_AS(struct books_thread, BOOKS_AT_THREADS + slot % BOOKS_THREADS * BOOKS_THREAD_BYTES);
}

/* It has no memo, and knows no stack. To Python, the words of native are a place where there is no frame. */
static inline void forget_stack(struct books_thread *thread)
{
	thread->frame_nr = 0;
	thread->native.own_low = thread->native.own_high = 0;
	thread->native.stack_low = thread->native.stack_high = 0;
	thread->native.given.address = 0;
}

/* `was`: 0, or a thread that has ended. */
static bool take_thread_slot(struct books_thread *thread, uint32_t was, uint32_t tid)
{
	if (!__atomic_compare_exchange_n(&thread->tid, &was, tid, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	thread->slot = ((uint64_t)thread - BOOKS_BASE - BOOKS_AT_THREADS) / BOOKS_THREAD_BYTES;
	thread->inside = thread->latest = thread->passed = 0;
	forget_stack(thread);
	__atomic_store_n(&thread->pointer, own_thread_pointer(), __ATOMIC_RELAXED);
	__atomic_store_n(&thread->pointer_tid, tid, __ATOMIC_RELEASE);
	return true;
}

/* Its thread has ended if the caller has its thread pointer. */
static bool has_slot_ended(const struct books_thread *thread, uint32_t *ret_tid)
{
	*ret_tid = LOAD(thread->tid);
	return __atomic_load_n(&thread->pointer_tid, __ATOMIC_ACQUIRE) == *ret_tid && LOAD(thread->pointer) == own_thread_pointer();
}

/* Stacks of one size lie at equal distances: pointers to them differ by multiples of it. */
static inline uint32_t first_slot_of(uint64_t thread_pointer)
{
	return (thread_pointer ^ thread_pointer >> 15) * MULTIPLIER >> (64 - BLOCK_THREAD_BITS);
}

/* Threads that follow each other have the same thread pointer, and each its own of these slots. */
static inline struct books_thread *slot_to_try(uint32_t first, uint32_t tid, uint32_t nr)
{
	return thread_slot(first + (tid + nr) % BOOKS_THREAD_TRIES);
}

/* The recorder frees the slots of threads that have ended. Where there were too many since, one of these is taken over. */
static __attribute__((noinline)) struct books_thread *find_thread_slowly(uint32_t first, uint32_t tid)
{
	uint32_t was;

	for (uint32_t i = 0; i < BOOKS_THREAD_TRIES; i++)
		if (LOAD(slot_to_try(first, tid, i)->tid) == tid)
			return slot_to_try(first, tid, i);
	for (uint32_t i = 0; i < BOOKS_THREAD_TRIES; i++)
		if (take_thread_slot(slot_to_try(first, tid, i), 0, tid))
			return slot_to_try(first, tid, i);
	for (uint32_t i = 0; i < BOOKS_THREAD_TRIES; i++)
		if (has_slot_ended(slot_to_try(first, tid, i), &was) && take_thread_slot(slot_to_try(first, tid, i), was, tid))
			return slot_to_try(first, tid, i);
	count_books_loss(BOOKS_LOST_THREADS);
	return NULL;
}

static inline struct books_thread *find_thread_slot(void)
{
	uint32_t tid = BOOKS_OWN_TID, first = first_slot_of(own_thread_pointer());
	struct books_thread *thread = slot_to_try(first, tid, 0);

	return likely(LOAD(thread->tid) == tid) ? thread : find_thread_slowly(first, tid);
}

#define STACK_MOST (UINT64_C(1) << 20) /* so far from a hook, a stack pointer is of another stack: a signal handler's */

/*
 * Whether the thread is in a hook already: an allocator calls another one, or a signal handler has interrupted a hook. A
 * handler that has jumped out of one leaves its mark, at an address below which there is nothing any more.
 */
static inline bool is_inside(const struct books_thread *thread, uint64_t stack)
{
	uint64_t inside = thread->inside;

	return unlikely(inside) && stack - (inside & ~UINT64_C(7)) > STACK_MOST; /* low bits are marks */
}

/* A handler has jumped out of a hook: two words that belong together may not be of the same time. */
static __attribute__((noinline)) void forget_half_written(struct books_thread *thread)
{
	forget_stack(thread);
	for (int i = 0; i < BOOKS_CHILDREN; i++)
		thread->child[i] = (struct books_child){};
}

static inline uint64_t hook_stack_pointer(void)
{
	uint64_t pointer;

	__asm__ volatile("movq %%rsp, %0" : "=r"(pointer));
	return pointer;
}

/* A call that is recorded. */
struct hook {
	struct books_thread *thread; /* NULL: it is not */
	uint64_t now;		     /* of the head */
	const uint64_t *frame;	     /* native: where rbp is saved, and the return address */
};

static inline struct hook begin_hook_in(struct books_thread *thread)
{
	struct hook hook = {};
	uint64_t stack = hook_stack_pointer();

	if (unlikely(!thread) || is_inside(thread, stack))
		return hook;
	if (unlikely(thread->inside))
		forget_half_written(thread);
	*(volatile uint64_t *)&thread->inside = stack; /* before `now` is loaded: the recorder makes the barrier */
	hook.now = *(volatile uint64_t *)&HEAD->now;
	if (unlikely(hook.now == BOOKS_OFF))
		*(volatile uint64_t *)&thread->inside = 0;
	else
		hook.thread = thread;
	return hook;
}

static inline struct hook begin_hook(void)
{
	return likely(BOOKS_ARE_ON) ? begin_hook_in(find_thread_slot()) : (struct hook){};
}

static inline void end_hook(const struct hook *hook)
{
	*(volatile uint64_t *)&hook->thread->left = hook->thread->left + 1;
	*(volatile uint64_t *)&hook->thread->inside = 0;
}

/* ---- the trie ---- */

static uint32_t find_or_add_node(uint32_t parent, uint64_t word)
{
	uint64_t hash = (word ^ (uint64_t)parent << 40 ^ parent) * MULTIPLIER;
	uint32_t *bucket = BOOKS_AS(uint32_t, BOOKS_AT_BUCKETS) + (hash >> 32) % BOOKS_BUCKETS, id = 0;

	for (;;) {
		uint32_t first = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);

		for (uint32_t i = first; i; i = NODES[i].next)
			if (NODES[i].word == word && NODES[i].parent == parent)
				return i;
		if (!id)
			id = __atomic_add_fetch(&HEAD->node_nr, 1, __ATOMIC_RELAXED);
		if (id >= BOOKS_NO_NODE) {
			__atomic_store_n(&HEAD->node_nr, BOOKS_NO_NODE, __ATOMIC_RELAXED);
			return BOOKS_NO_NODE;
		}
		NODES[id] = (struct books_node){ word, parent, first };
		if (__atomic_compare_exchange_n(bucket, &first, id, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return id;
	}
}

static __attribute__((noinline)) uint32_t add_totals(struct books_node *node)
{
	uint32_t none = 0, id = __atomic_add_fetch(&HEAD->totals_nr, 1, __ATOMIC_RELAXED);

	if (id >= BOOKS_NODES_MAX) {
		__atomic_store_n(&HEAD->totals_nr, BOOKS_NODES_MAX, __ATOMIC_RELAXED);
		return 0;
	}
	return __atomic_compare_exchange_n(&node->totals, &none, id, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? id : none;
}

static inline struct books_totals *totals_of(uint32_t id)
{
	struct books_node *node = &NODES[id % BOOKS_NODES_MAX];

	return BOOKS_AS(struct books_totals, BOOKS_AT_TOTALS) + ((LOAD(node->totals) ?: add_totals(node)) % BOOKS_NODES_MAX);
}

/* ---- small blocks ---- */

static inline bool is_small(uint64_t address, uint64_t size)
{
	return size <= BOOKS_SMALL_MAX && !(address & 15);
}

static inline uint32_t *chunk_of(uint64_t address)
{
	return BOOKS_AS(uint32_t, BOOKS_AT_DIRECTORY) + (address >> BOOKS_CHUNK_SHIFT) % BOOKS_DIRECTORY_NR;
}

static inline uint64_t half_bit(uint64_t address)
{
	return (address & 16) * (BLOCK_IS_ODD / 16);
}

static inline bool is_word_of(uint64_t word, uint64_t address)
{
	return word && !((word ^ half_bit(address)) & BLOCK_IS_ODD);
}

/* The first word of the 32 bytes of an address. NULL: none there had one. */
static inline uint64_t *first_word(uint64_t address)
{
	uint32_t chunk = __atomic_load_n(chunk_of(address), __ATOMIC_ACQUIRE);

	if (!chunk || (address & 15))
		return NULL;
	return BOOKS_AS(uint64_t, BOOKS_AT_CHUNKS) + UINT64_C(1) * (chunk - 1) * BOOKS_CHUNK_WORDS + (address >> 5) % BOOKS_CHUNK_LINES;
}

/* Which pages of a chunk have second words: no other page is read, as that would make it. */
static inline uint64_t *second_bits(uint64_t address)
{
	return BOOKS_AS(uint64_t, BOOKS_AT_SECONDS) + (LOAD(*chunk_of(address)) - 1) % BOOKS_CHUNKS_MAX;
}

static inline uint64_t second_bit(uint64_t address)
{
	return UINT64_C(1) << (address >> BOOKS_CHUNK_PAGE_SHIFT) % 64;
}

/* The block's word if it is the second one of its 32 bytes; else NULL. */
static __attribute__((noinline)) uint64_t *find_second_word(uint64_t address, uint64_t *first)
{
	return LOAD(*second_bits(address)) & second_bit(address) && is_word_of(first[BOOKS_CHUNK_LINES], address) ?
		       first + BOOKS_CHUNK_LINES : NULL;
}

static inline uint64_t *second_word(uint64_t address, uint64_t *first)
{
	return unlikely(LOAD(HEAD->has_seconds)) ? find_second_word(address, first) : NULL;
}

/* The word of a block that begins there, or NULL. */
static inline uint64_t *small_word(uint64_t address)
{
	uint64_t *first = first_word(address);

	if (unlikely(!first))
		return NULL;
	return likely(is_word_of(*first, address)) ? first : second_word(address, first);
}

/* Another block begins in the same 32 bytes. */
static __attribute__((noinline)) uint64_t *take_second_word(uint64_t address, uint64_t *first)
{
	__atomic_fetch_or(second_bits(address), second_bit(address), __ATOMIC_RELAXED);
	__atomic_store_n(&HEAD->has_seconds, 1, __ATOMIC_RELAXED);
	return first + BOOKS_CHUNK_LINES;
}

/* Where the word of a block belongs. `first`: of its 32 bytes. */
static inline uint64_t *word_to_write(uint64_t address, uint64_t *first)
{
	if (unlikely(is_word_of(*first, address)))
		return first;
	return likely(!*first) ? second_word(address, first) ?: first : take_second_word(address, first);
}

/* Neither word is lost if two threads enter two blocks of the same 32 bytes at once. */
static __attribute__((noinline)) void write_beside(uint64_t address, uint64_t *place, uint64_t word)
{
	uint64_t none = 0;

	if (place == first_word(address) && !is_word_of(LOAD(*place), address)) {
		if (__atomic_compare_exchange_n(place, &none, word, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
		place = take_second_word(address, place);
	}
	__atomic_store_n(place, word, __ATOMIC_RELAXED);
}

/*
 * place: by word_to_write(). An even block of more than 16 bytes is alone. Until two blocks have been side by side, the allocator is
 * taken for one that never puts them so, like glibc's. is_raw: several threads may enter blocks at once.
 */
static inline void write_small_word(uint64_t address, uint64_t *place, uint64_t word, bool is_raw)
{
	if (is_raw && unlikely(LOAD(HEAD->has_seconds)) && (word & BLOCK_IS_ODD || BLOCK_SIZE(word) <= 16))
		write_beside(address, place, word);
	else
		__atomic_store_n(place, word, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) uint64_t *add_shadow_chunk(uint64_t address)
{
	uint32_t none = 0, chunk = __atomic_add_fetch(&HEAD->chunk_nr, 1, __ATOMIC_RELAXED);

	if (chunk > BOOKS_CHUNKS_MAX) {
		__atomic_store_n(&HEAD->chunk_nr, BOOKS_CHUNKS_MAX, __ATOMIC_RELAXED);
		return NULL;
	}
	__atomic_compare_exchange_n(chunk_of(address), &none, chunk, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return first_word(address);
}

/* ---- larger blocks ---- */

#define LARGE_BUSY 1 /* the address of an entry that is being written */

static inline struct books_large *large_entry(uint32_t level, uint64_t hash, uint32_t neighbour)
{
	uint64_t nr = UINT64_C(1) << (BOOKS_LEVEL_SHIFT + level);

	return BOOKS_AS(struct books_large, BOOKS_AT_LEVELS) + BOOKS_LEVEL_AT(level) + ((hash >> 32) + neighbour) % nr;
}

static inline uint64_t large_hash(uint64_t address)
{
	return (address >> 3) * MULTIPLIER;
}

static struct books_large *find_large(uint64_t address)
{
	uint64_t hash = large_hash(address);

	for (uint32_t level = LOAD(HEAD->level_nr); level-- > 0;)
		for (uint32_t i = 0; i < BOOKS_NEIGHBOURS; i++) {
			struct books_large *entry = large_entry(level, hash, i);

			if (LOAD(entry->address) == address)
				return entry;
		}
	return NULL;
}

static bool add_to_level(uint32_t level, uint64_t hash, const struct books_large *new)
{
	for (uint32_t i = 0; i < BOOKS_NEIGHBOURS; i++) {
		struct books_large *entry = large_entry(level, hash, i);
		uint64_t none = 0;

		if (LOAD(entry->address) ||
		    !__atomic_compare_exchange_n(&entry->address, &none, LARGE_BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		entry->word = new->word;
		entry->size = new->size;
		__atomic_store_n(&entry->address, new->address, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

static __attribute__((noinline)) bool add_large(const struct books_large *new)
{
	uint64_t hash = large_hash(new->address);

	for (;;) {
		uint32_t nr = __atomic_load_n(&HEAD->level_nr, __ATOMIC_ACQUIRE);

		for (uint32_t level = nr; level-- > 0;) /* blocks have left the others meanwhile */
			if (add_to_level(level, hash, new))
				return true;
		if (nr >= BOOKS_LEVELS_MAX)
			return false;
		__atomic_compare_exchange_n(&HEAD->level_nr, &nr, nr + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
}

static inline uint64_t small_word_of(const struct books_large *block)
{
	return block->word | block->size << BLOCK_SIZE_SHIFT | half_bit(block->address);
}

static bool put_in_books(const struct books_large *block)
{
	uint64_t *first;

	if (!is_small(block->address, block->size))
		return add_large(block);
	first = first_word(block->address) ?: add_shadow_chunk(block->address);
	if (first)
		write_small_word(block->address, word_to_write(block->address, first), small_word_of(block), true);
	return first;
}

#endif
