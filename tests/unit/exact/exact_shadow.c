// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The shadow of the heap, as the hooks write it: against a list of the blocks that live. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "books_fixture.h"

static struct made_books made;

#define BOOKS_BASE ((uint64_t)made.base)
#define BOOKS_ARE_ON true
#define BOOKS_OWN_TID 1

#include "exact/books_writer.h"

static uint32_t count_allocation(const struct hook *hook, uint64_t size, bool is_raw)
{
	(void)hook, (void)size, (void)is_raw;
	return find_or_add_node(0, 1);
}

static void count_temporary(struct books_thread *thread, uint32_t node, uint64_t size, bool is_raw)
{
	(void)thread, (void)node, (void)size, (void)is_raw;
}

static void retire_code(uint64_t address)
{
	(void)address;
}

#include "exact/books_blocks.h"

static void begin_shadow(void)
{
	make_file_of_books(&made);
}

static void end_shadow(void)
{
	release_made_books(&made);
}

TestSuite(exact_shadow, .init = begin_shadow, .fini = end_shadow);

#define HEAP UINT64_C(0x7f0000000000)
#define PLACES 512 /* of 16 bytes; a block has at least one */

static uint64_t size_at[PLACES]; /* of the block that begins there; 0: none */
static unsigned int random_state = 1;

static uint32_t random_below(uint32_t end)
{
	return (uint32_t)rand_r(&random_state) % end;
}

/* The blocks that begin before its end, and end after its begin, must be gone. */
static bool is_room(int place, uint64_t size)
{
	for (int i = 0; i < PLACES; i++)
		if (size_at[i] && i * 16 < place * 16 + (int)size && place * 16 < i * 16 + (int)size_at[i])
			return false;
	return place * 16 + (int)size <= PLACES * 16;
}

static void check_shadow(int step)
{
	uint64_t *word = BOOKS_AS(uint64_t, BOOKS_AT_CHUNKS);
	int live = 0, expected = 0;

	for (uint32_t i = 0; i < BOOKS_CHUNK_WORDS; i++)
		live += !!(word[i] & BLOCK_IS_LIVE);
	for (int i = 0; i < PLACES; i++) {
		uint64_t *found = small_word(HEAP + i * 16);

		cr_assert_eq(found && *found & BLOCK_IS_LIVE, size_at[i] != 0, "step %d: place %d", step, i);
		if (found)
			cr_assert_eq(BLOCK_SIZE(*found), size_at[i], "step %d: place %d has %u bytes", step, i, BLOCK_SIZE(*found));
		expected += size_at[i] != 0;
	}
	cr_assert_eq(live, expected, "step %d: %d words for %d blocks", step, live, expected);
}

/* A block may end unseen; then the allocator gives the same address again. */
static void take_step(const struct hook *hook)
{
	int place = random_below(PLACES);
	uint64_t size = random_below(4) ? 1 + random_below(16) : 1 + random_below(100), word;

	if (size_at[place] && random_below(4)) {
		word = leave_block(hook, HEAP + place * 16, &size, false);
		cr_assert_eq(size, size_at[place]);
		if (random_below(8))
			size_at[place] = 0;
		else
			put_back(hook, HEAP + place * 16, word, size); /* realloc() has failed */
	} else if (size_at[place] && random_below(2)) {
		leave_amid_hook(HEAP + place * 16, false);
		size_at[place] = 0;
	} else if (size_at[place] || is_room(place, size)) {
		size = size_at[place] ?: size;
		enter_in_books(hook, HEAP + place * 16, size, false);
		size_at[place] = size;
	}
}

Test(exact_shadow, has_a_word_for_each_live_block)
{
	struct hook hook = begin_hook();

	cr_assert(hook.thread);
	cr_assert_eq(word_at((uint64_t)&HEAD->now), hook.now);
	for (int step = 0; step < 20000; step++) {
		take_step(&hook);
		if (step % 16 == 0)
			check_shadow(step);
	}
	cr_assert(LOAD(HEAD->has_seconds));
	end_hook(&hook);
}

Test(exact_shadow, makes_no_page_of_seconds_without_one)
{
	struct hook hook = begin_hook();
	uint64_t size;

	for (uint64_t at = 0; at < 1 << BOOKS_CHUNK_SHIFT; at += 32)
		enter_in_books(&hook, HEAP + at, 24, false);
	for (uint64_t at = 16; at < 1 << BOOKS_CHUNK_SHIFT; at += 32)
		leave_block(&hook, HEAP + at, &size, false);
	cr_expect_eq(hook.thread->unknown_frees, 1 << (BOOKS_CHUNK_SHIFT - 5));
	cr_expect_not(LOAD(HEAD->has_seconds));
	cr_expect_eq(lseek(made.fd, BOOKS_AT_CHUNKS, SEEK_DATA), (off_t)BOOKS_AT_CHUNKS);
	cr_expect_eq(lseek(made.fd, BOOKS_AT_CHUNKS, SEEK_HOLE), (off_t)(BOOKS_AT_CHUNKS + 8 * BOOKS_CHUNK_LINES));
	end_hook(&hook);
}

/* ---- two threads ---- */

#define ROUNDS 3000000

/* Where blocks have been side by side, so that the hooks know that there may be more. */
static void *enter_and_leave(void *nr)
{
	struct books_thread *thread = thread_slot((uintptr_t)nr);
	struct hook hook = { .thread = thread, .now = 1 };
	uint64_t address = HEAP + (uintptr_t)nr * 16, size;

	for (int i = 0; i < ROUNDS; i++) {
		enter_in_books(&hook, address, 16, true);
		leave_block(&hook, address, &size, true);
	}
	return NULL;
}

Test(exact_shadow, has_blocks_of_two_threads_side_by_side)
{
	struct hook hook = begin_hook();
	pthread_t thread[2];

	enter_in_books(&hook, HEAP, 16, true);
	enter_in_books(&hook, HEAP + 16, 16, true);
	leave_amid_hook(HEAP, true);
	leave_amid_hook(HEAP + 16, true);
	for (uintptr_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, enter_and_leave, (void *)i), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(thread_slot(i)->unknown_frees, 0, "%lu blocks of thread %d were lost", thread_slot(i)->unknown_frees, i);
		cr_expect_null(small_word(HEAP + i * 16), "a ghost of thread %d", i);
	}
	cr_expect_eq(HEAD->lost[BOOKS_UNSEEN_FREES], 0);
	end_hook(&hook);
}
