/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_OPERATORS_H
#define ALLOCSNAP_SAMPLER_OPERATORS_H

/*
 * C++'s operators new and delete, in liballocsnap-sampler-new.so only: for allocators that define these themselves, as the
 * shared libraries of jemalloc, tcmalloc and mimalloc do. A new that calls malloc() is passed through, as malloc() counts.
 *
 * Without such an allocator the library must not be there: a program in C may load a C++ plugin that has operators of its
 * own, and ours, which the loader finds first, would be mixed with them.
 *
 * An exception may leave the next operator. So nothing is kept in the thread meanwhile.
 */

#include <stdlib.h>

SLOW uint64_t count_operator(size_t n)
{
	return count_to_sample(&mine, n, (uintptr_t)__builtin_frame_address(0));
}

/* No file defines operators: the process has no C++ library. */
static void *new_by_malloc(size_t n, size_t alignment, bool throws)
{
	void *block = alignment ? memalign(alignment, n) : malloc(n ?: 1);

	if (!block && throws)
		abort(); /* no caller could catch an exception */
	return block;
}

SLOW void forget_deleted(void *block)
{
	leave_sample((uintptr_t)block);
}

#define NEW_OPERATOR(symbol, alignment, throws, parameters, arguments)                                        \
	static struct {                                                                                       \
		void *(*next) parameters;                                                                     \
		bool is_own; /* the allocator's, and it does not call malloc() */                             \
	} operator##symbol;                                                                                   \
	EXPORT void *symbol parameters;                                                                       \
	SLOW void *slow##symbol parameters                                                                    \
	{                                                                                                     \
		uint64_t interval;                                                                            \
		void *block;                                                                                  \
                                                                                                              \
		if (unlikely(!has_begun))                                                                     \
			find_next_allocator();                                                                \
		if (!operator##symbol.next)                                                                   \
			return new_by_malloc(n, alignment, throws);                                           \
		if (!operator##symbol.is_own)                                                                 \
			return operator##symbol.next arguments;                                               \
		interval = count_operator(n);                                                                 \
		block = operator##symbol.next arguments;                                                      \
		return end_call((struct call){ interval, mine }, block, n);                              \
	}                                                                                                     \
	EXPORT void *symbol parameters                                                                        \
	{                                                                                                     \
		return operator##symbol.is_own && pass_malloc(n) ? operator##symbol.next arguments :          \
								   slow##symbol arguments;                    \
	}

#define DELETE_OPERATOR(symbol, parameters, arguments)                                                        \
	static void(*operator##symbol) parameters;                                                            \
	EXPORT void symbol parameters;                                                                        \
	EXPORT void symbol parameters                                                                         \
	{                                                                                                     \
		if (unlikely(!has_begun))                                                                     \
			find_next_allocator();                                                                \
		if (unlikely(filter_may_have((uintptr_t)block)))                                              \
			forget_deleted(block);                                                                \
		if (operator##symbol)                                                                         \
			operator##symbol arguments;                                                           \
		else                                                                                          \
			free(block);                                                                          \
	}

/* operator new and new[], and those with nothrow (`tag`) and with an alignment. */
#define NEW_OPERATORS(X)                                                                                      \
	X(_Znwm, 0, true, (size_t n), (n))                                                                    \
	X(_Znam, 0, true, (size_t n), (n))                                                                    \
	X(_ZnwmRKSt9nothrow_t, 0, false, (size_t n, const void *tag), (n, tag))                               \
	X(_ZnamRKSt9nothrow_t, 0, false, (size_t n, const void *tag), (n, tag))                               \
	X(_ZnwmSt11align_val_t, to, true, (size_t n, size_t to), (n, to))                                     \
	X(_ZnamSt11align_val_t, to, true, (size_t n, size_t to), (n, to))                                     \
	X(_ZnwmSt11align_val_tRKSt9nothrow_t, to, false, (size_t n, size_t to, const void *tag), (n, to, tag)) \
	X(_ZnamSt11align_val_tRKSt9nothrow_t, to, false, (size_t n, size_t to, const void *tag), (n, to, tag))

#define DELETE_OPERATORS(X)                                                                                   \
	X(_ZdlPv, (void *block), (block))                                                                     \
	X(_ZdaPv, (void *block), (block))                                                                     \
	X(_ZdlPvm, (void *block, size_t n), (block, n))                                                       \
	X(_ZdaPvm, (void *block, size_t n), (block, n))                                                       \
	X(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag))                                 \
	X(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag))                                 \
	X(_ZdlPvSt11align_val_t, (void *block, size_t to), (block, to))                                       \
	X(_ZdaPvSt11align_val_t, (void *block, size_t to), (block, to))                                       \
	X(_ZdlPvmSt11align_val_t, (void *block, size_t n, size_t to), (block, n, to))                         \
	X(_ZdaPvmSt11align_val_t, (void *block, size_t n, size_t to), (block, n, to))                         \
	X(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t to, const void *tag), (block, to, tag))   \
	X(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t to, const void *tag), (block, to, tag))

NEW_OPERATORS(NEW_OPERATOR)
DELETE_OPERATORS(DELETE_OPERATOR)

static void find_operators(void)
{
#define FIND_NEW(symbol, alignment, throws, parameters, arguments) operator##symbol.next = dlsym(RTLD_NEXT, #symbol);
#define FIND_DELETE(symbol, parameters, arguments) operator##symbol = dlsym(RTLD_NEXT, #symbol);
	NEW_OPERATORS(FIND_NEW)
	DELETE_OPERATORS(FIND_DELETE)
}

/* Each by itself: jemalloc's new calls no function that counts, but its new with an alignment calls aligned_alloc(). */
static void choose_operators(const struct allocator *allocator)
{
	size_t n = 64, to = 64;
	const void *tag = &to; /* std::nothrow, which has no content */
	struct countdown kept = mine;

#define CHOOSE(symbol, alignment, throws, parameters, arguments)                                              \
	if (allocator_has(allocator, (void *)operator##symbol.next)) {                                        \
		mine = (struct countdown){ NEVER, 1 };                                                        \
		allocator->free(operator##symbol.next arguments);                                             \
		operator##symbol.is_own = mine.left == NEVER;                                                 \
	}
	NEW_OPERATORS(CHOOSE)
	mine = kept;
}

#endif
