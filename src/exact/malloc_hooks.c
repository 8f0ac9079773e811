// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hooks at the entries of an allocator's functions, in a process that runs (malloc_hooks.h): each block is entered into the
 * books. They are called from injected_hooks.S, in any thread and any signal handler. The file has no relocations, calls no
 * library, uses no floating point, takes no lock that a thread could wait for, and allocates nothing. It makes a system call only where a
 * thread meets a page of its stack for the first time (native_walk.h).
 */
#include "exact/malloc_hooks.h"
#include "sampler/injected.h"
#include "shared/call_types.h"

/* ---- the books ---- */

#define ON_BYTES 4096

__attribute__((visibility("hidden"))) struct malloc_hooks malloc_hooks = { .books = 1 }; /* in .data */
__attribute__((visibility("hidden"), aligned(ON_BYTES))) union {
	volatile uint64_t is_on; /* a page of its own: a child has 0 there (MADV_WIPEONFORK) */
	char page[ON_BYTES];
} malloc_hooks_on;

static inline uint32_t number_of_thread(void)
{
	uint32_t tid;

	__asm__("movl %%fs:(%1), %0" : "=r"(tid) : "r"(malloc_hooks.tid_at));
	return tid;
}

#define BOOKS_BASE malloc_hooks.books
#define BOOKS_ARE_ON malloc_hooks_on.is_on
#define BOOKS_OWN_TID number_of_thread()
#define BOOKS_MAIN_STACK_END malloc_hooks.main_stack_end
#define BOOKS_MAIN_POINTER malloc_hooks.main_pointer
#define BOOKS_MAY_CALL malloc_hooks.may_call

#include "exact/books_writer.h"

static inline struct books_thread *own_thread_slot(void)
{
	return find_thread_slot();
}

#include "exact/native_calls.h"

/* ---- calls, as in sampler/injected.c ---- */

/* The room for the hooks' registers (injected_hooks.S), INJECTED_PLACE below where the stack pointer was. */
struct saved_arguments {
	uint64_t argument[6];
};

/* How the hook goes on: returns `result`; or, if target is not 0, jumps there, with the arguments as they were. */
struct slow_end {
	uint64_t result, target;
};

struct slow_end injected_slow(const struct saved_arguments *saved, const struct injected_site *site);

static struct slow_end pass_to(uint64_t trampoline)
{
	return (struct slow_end){ .target = trampoline };
}

static struct slow_end return_result(uint64_t result)
{
	return (struct slow_end){ .result = result };
}

static uint64_t call_allocator(uint64_t trampoline, const struct saved_arguments *saved)
{
	uint64_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = (void *)trampoline;
	const uint64_t *a = saved->argument;

	return function(a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* rbp, which the hook has pushed just below the return address of the call. */
static const uint64_t *frame_of_call(const struct saved_arguments *saved)
{
	return (const uint64_t *)((uint64_t)saved + INJECTED_PLACE - sizeof(uint64_t));
}

/*
 * A function that throws is called by a jump only, as the exception would not pass a frame of ours. A block comes from the
 * variant that returns NULL instead; if it does, the function itself may say so, and its block is not recorded.
 */
static struct slow_end record_throwing(const struct hook *hook, const struct saved_arguments *saved,
				       const struct injected_site *site, uint64_t n)
{
	struct saved_arguments plain = *saved;
	uint64_t block;

	plain.argument[site->nothrow_argument] = (uint64_t)saved; /* an object without content */
	block = end_recorded(hook, call_allocator(site->plain, &plain), n);
	return block ? return_result(block) : pass_to(site->trampoline);
}

static struct slow_end record_alloc(const struct saved_arguments *saved, const struct injected_site *site, uint64_t n)
{
	const struct hook hook = begin_recorded(frame_of_call(saved));
	uint64_t result;

	if (unlikely(!hook.thread))
		return pass_to(site->trampoline);
	if (site->flags & INJECTED_THROWS)
		return record_throwing(&hook, saved, site, n);
	result = call_allocator(site->trampoline, saved);
	if (site->shape != SHAPE_POSIX_MEMALIGN)
		return return_result(end_recorded(&hook, result, n));
	end_recorded(&hook, (uint32_t)result ? 0 : *(const uint64_t *)saved->argument[0], n);
	return return_result(result);
}

static struct slow_end record_realloc(const struct saved_arguments *saved, const struct injected_site *site, uint64_t was,
				      uint64_t n)
{
	const struct hook hook = begin_recorded(frame_of_call(saved));
	const struct left_block old = leave_old(&hook, was);

	if (unlikely(!hook.thread))
		return pass_to(site->trampoline);
	return return_result(end_realloc(&hook, &old, call_allocator(site->trampoline, saved), n, n && site->shape != SHAPE_REALLOCF));
}

static struct slow_end record_xallocx(const struct saved_arguments *saved, const struct injected_site *site)
{
	const struct hook hook = begin_recorded(frame_of_call(saved));
	uint64_t block = saved->argument[0], n = saved->argument[1], result;

	if (unlikely(!hook.thread))
		return pass_to(site->trampoline);
	result = call_allocator(site->trampoline, saved);
	end_resize(&hook, block, n, result >= n);
	return return_result(result);
}

/* The free that it calls, perhaps of another allocator, is no free of another block. */
static struct slow_end record_free_above(const struct saved_arguments *saved, const struct injected_site *site, uint64_t block)
{
	const struct hook hook = begin_recorded(frame_of_call(saved));
	const struct left_block old = leave_old(&hook, block);

	if (unlikely(!hook.thread))
		return pass_to(site->trampoline);
	call_allocator(site->trampoline, saved);
	return return_result(end_realloc(&hook, &old, 0, 0, false));
}

struct slow_end injected_slow(const struct saved_arguments *saved, const struct injected_site *site)
{
	const uint64_t *a = saved->argument + (site->flags & INJECTED_OF_HEAP);
	uint64_t n;

	switch (site->shape) {
	case SHAPE_FREE:
		if (site->flags & INJECTED_ABOVE)
			return record_free_above(saved, site, a[0]);
		if (a[0])
			leave_freed(a[0]);
		break;
	case SHAPE_MALLOC:
		return record_alloc(saved, site, a[0]);
	case SHAPE_CALLOC:
		if (!__builtin_mul_overflow(a[0], a[1], &n))
			return record_alloc(saved, site, n);
		break; /* the call fails */
	case SHAPE_MEMALIGN:
		return record_alloc(saved, site, a[1]);
	case SHAPE_POSIX_MEMALIGN:
		return record_alloc(saved, site, a[2]);
	case SHAPE_REALLOC:
	case SHAPE_REALLOCF:
		return record_realloc(saved, site, a[0], a[1]);
	case SHAPE_XALLOCX:
		return record_xallocx(saved, site);
	case SHAPE_REALLOCARRAY:
		if (!__builtin_mul_overflow(a[1], a[2], &n))
			return record_realloc(saved, site, a[0], n);
		break;
	}
	return pass_to(site->trampoline);
}
