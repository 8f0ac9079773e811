// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * liballocsnap-exact.so, which compares each walk with one without a memo, and one of COMPARED_EACH with libunwind's. The
 * program may ask how many there were (tests/workloads/walks.c), and at its end they are printed.
 */
#include <stdint.h>

struct books_thread;
static uint32_t walk_native(struct books_thread *thread, const uint64_t *frame);

#define walk_native walk_native
#include "exact/exact_preload.c"

#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <stdio.h>

#define COMPARED_EACH 64
#define FRAMES 512

static void compare(bool is_same)
{
	__atomic_fetch_add(&HEAD->compared, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&HEAD->differ, !is_same, __ATOMIC_RELAXED);
}

__attribute__((visibility("default"))) unsigned long compared_walks(void)
{
	return books_base ? LOAD(HEAD->compared) : 0;
}

__attribute__((destructor)) static void print_walks(void)
{
	if (books_on.is_on)
		dprintf(2, "compared %lu differ %lu\n", LOAD(HEAD->compared), LOAD(HEAD->differ));
}

/* A thread of its own, for walks without a memo. */
static struct books_thread *plain_thread(const struct books_thread *thread)
{
	static __thread struct books_thread *plain __attribute__((tls_model("initial-exec")));

	if (!plain)
		plain = mmap(NULL, sizeof(*plain), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	plain->native.own_low = thread->native.own_low;
	plain->native.own_high = thread->native.own_high;
	plain->native.known_nr = plain->native.replaced_nr = UINT64_MAX; /* no memo, no steps, no tails */
	return plain;
}

/* Whether libunwind finds the same callers of the allocator. */
static bool is_same_by_libunwind(uint32_t node, const uint64_t *frame)
{
	uint64_t pc[FRAMES];
	unw_context_t context;
	unw_cursor_t cursor;
	int nr = 0, i = 0;

	unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE); /* it does not notice dlclose() */
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do
		unw_get_reg(&cursor, UNW_REG_IP, &pc[nr++]);
	while (nr < FRAMES && unw_step(&cursor) > 0);
	while (i < nr && pc[i] != frame[1])
		i++;
	for (; i < nr && !(NODES[node].word & BOOKS_END) && BOOKS_PC(NODES[node].word) == pc[i]; i++)
		node = NODES[node].parent;
	return i == FRAMES || ((i == nr || !pc[i]) && NODES[node].word & BOOKS_END);
}

/* A copied stack, or what is kept of it where there is no more room for copies: the recorder has not said yet what code there is. */
static bool is_known(uint32_t node)
{
	while (!(NODES[node].word & BOOKS_END))
		node = NODES[node].parent;
	return BOOKS_END_OF(NODES[node].word) != BOOKS_END_COPIED && BOOKS_END_OF(NODES[node].word) != UNWIND_NO_TABLE;
}

static uint32_t walk_native(struct books_thread *thread, const uint64_t *frame)
{
	static __thread uint32_t calls __attribute__((tls_model("initial-exec")));
	uint32_t known_nr = HEAD->known_nr, node = walk_native_by_memo(thread, frame), plain;

	plain = walk_native_by_memo(plain_thread(thread), frame);
	if (LOAD(HEAD->known_nr) != known_nr || node == BOOKS_NO_NODE || !is_known(node))
		return node;
	compare(plain == node);
	if (calls++ % COMPARED_EACH == 0)
		compare(is_same_by_libunwind(node, frame));
	return node;
}
