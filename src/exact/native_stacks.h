/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_NATIVE_STACKS_H
#define ALLOCSNAP_EXACT_NATIVE_STACKS_H

/*
 * Which memory a walk may read: the thread's own stack, and stacks that the recorder has found or that the kernel was asked
 * about. A file that includes it defines
 *
 *	BOOKS_MAIN_STACK_END	an address at the end of the main thread's stack
 *	BOOKS_MAIN_POINTER	the main thread's thread pointer
 *	BOOKS_MAY_CALL		whether a thread may make a system call: a filter (seccomp) may end the process there
 */

#include <errno.h>
#include <sys/syscall.h>

#include "exact/books_writer.h"
#include "raw_call.h"

static inline bool is_known_memory(const struct books_native *native, uint64_t address)
{
	return address - native->stack_low < native->stack_high - native->stack_low && !(address & 7);
}

static inline const struct books_known *books_known(uint32_t nr)
{
	return BOOKS_AS(struct books_known, BOOKS_AT_KNOWN + nr % 2 * BOOKS_KNOWN_BYTES);
}

#define MAIN_STACK_MOST (UINT64_C(128) << 20) /* below its end nothing else is mapped (mmap_base(), arch/x86/mm/mmap.c) */
#define OWN_STACK_MOST (UINT64_C(64) << 20)
#define OTHER_STACK_MOST (UINT64_C(1) << 20) /* until the recorder has said where it ends */

/*
 * Whether the kernel can read a word there. It reads the set before it looks at what to do with it, and ~0 is nothing to do:
 * so nothing changes (rt_sigprocmask(), kernel/signal.c). A thread asks once about a page of its stack.
 */
static bool is_readable(uint64_t address)
{
	return BOOKS_MAY_CALL &&
	       raw_call(SYS_rt_sigprocmask, -1, address, 0, sizeof(uint64_t), 0, 0) == -EINVAL; /* a filter of system calls may answer anything else */
}

/* The first page of [page, end) that cannot be read; or end. */
static uint64_t end_of_readable(uint64_t page, uint64_t end)
{
	while (page < end && is_readable(page))
		page += BOOKS_PAGE;
	return page < end ? page : end;
}

/* The stack is there as long as the thread. Another one may be unmapped at any time while the thread is not on it. */
static inline bool is_on_lasting_stack(const struct books_native *native)
{
	return native->stack_high == native->own_high || native->stack_high == (BOOKS_MAIN_STACK_END & ~UINT64_C(7));
}

/* Where the lasting stack of an address ends. 0: the address is on another stack. */
static uint64_t end_of_lasting_stack(const struct books_native *native, uint64_t address)
{
	if (BOOKS_MAIN_STACK_END - address < MAIN_STACK_MOST)
		return BOOKS_MAIN_STACK_END;
	return address - native->own_low < native->own_high - native->own_low ? native->own_high : 0;
}

static void use_stack(struct books_native *native, uint64_t low, uint64_t high)
{
	native->stack_low = low;
	native->stack_high = high;
}

/* The main thread's stack ends where the kernel has put what the program begins with. */
static bool find_main_stack(struct books_native *native, uint64_t sp)
{
	uint64_t end = BOOKS_MAIN_STACK_END & ~UINT64_C(7);

	if (end - sp > MAIN_STACK_MOST)
		return false;
	use_stack(native, sp & ~(BOOKS_PAGE - 1), end);
	return true;
}

/*
 * The C library's part of a thread ends its stack (glibc, musl): the thread pointer leads there. The main thread's part lies
 * apart, and what is below it may be any stack, that is unmapped at any time. 0: the main thread's.
 */
static inline uint64_t end_of_own_stack(void)
{
	return own_thread_pointer() == BOOKS_MAIN_POINTER ? 0 : own_thread_pointer() & ~UINT64_C(7);
}

static void use_own_stack(struct books_native *native, uint64_t low, uint64_t high)
{
	native->own_low = low;
	native->own_high = high;
	use_stack(native, low, high);
}

/* Stacks that the recorder has found. */
static bool find_known_stack(struct books_native *native, uint64_t sp)
{
	uint32_t nr = __atomic_load_n(&HEAD->known_nr, __ATOMIC_ACQUIRE);
	const struct books_known *known = books_known(nr);
	uint32_t range_nr = LOAD(known->range_nr);

	for (uint32_t i = 0; i < range_nr && i < BOOKS_RANGES_MAX; i++) {
		use_stack(native, LOAD(known->range[i].start), LOAD(known->range[i].end));
		if (!is_known_memory(native, sp))
			continue;
		if (end_of_own_stack() > sp && is_known_memory(native, end_of_own_stack() - 8))
			use_own_stack(native, sp & ~(BOOKS_PAGE - 1), end_of_own_stack());
		return LOAD(HEAD->known_nr) == nr;
	}
	return false;
}

static bool find_own_stack(struct books_native *native, uint64_t sp)
{
	uint64_t page = sp & ~(BOOKS_PAGE - 1), top = end_of_own_stack();
	uint64_t end = native->own_high ? native->own_low : top;

	if (!top || end - page > OWN_STACK_MOST || end_of_readable(page, end) != end)
		return false;
	use_own_stack(native, page, top);
	return true;
}

/* Which memory from a place in a stack on can be read. */
static __attribute__((noinline)) void find_stack(struct books_native *native, uint64_t sp)
{
	uint64_t page = sp & ~(BOOKS_PAGE - 1);

	use_stack(native, native->own_low, native->own_high);
	if (is_known_memory(native, sp) || find_main_stack(native, sp) || find_known_stack(native, sp) || find_own_stack(native, sp))
		return;
	use_stack(native, page, end_of_readable(page, page + OTHER_STACK_MOST));
	__atomic_store_n(&HEAD->wanted_stack, sp, __ATOMIC_RELAXED);
}

#endif
