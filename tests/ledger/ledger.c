// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A ledger, preloaded: it counts every allocator call of a program, inside the program and by other
 * means than the profiler. Its counters have the profiler's meanings: a nested call counts once, with
 * the outermost call; a size is the requested one; a realloc that succeeds is a block removed and a
 * block entered; a block is entered after the allocator has returned it and removed before the
 * allocator is told to free it.
 *
 *	LD_PRELOAD=ledger.so LEDGER=DIR [LEDGER_STOPS=NAME,ALLOCATIONS…] PROGRAM…
 *
 * With LEDGER_STOPS a program of that name stops itself when it has made so many allocations.
 * The ledger is the file DIR/PID.N, for the Nth program that the process has become, while it is
 * kept; see ledger.h. A forked child has a ledger of its own. Calls that a vforked child makes in its
 * parent's memory are in no ledger, or with LEDGER_VFORK= in its parent's. Each call is passed on to
 * the next definition of the function, which may be in another allocator than libc.
 *
 * Nothing here calls out of the library between a call's first instruction and is_inside = 1, nor
 * between is_inside = 0 and its last one: halt.c relies on it.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "own.h"

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN_TLS static __thread __attribute__((tls_model("initial-exec")))

static pthread_key_t thread_key;
HIDDEN_TLS struct ledger_call *call;
HIDDEN_TLS bool is_inside;

/* Without arguments; not libc's. */
static inline pid_t kernel_says(long nr)
{
#ifdef __x86_64__
	asm volatile("syscall" : "+a"(nr) : : "rcx", "r11", "memory");
	return nr;
#else
	return syscall(nr);
#endif
}

/* Not in a vforked child, which has our memory; a forked one begins anew. */
static inline bool is_ours(void)
{
	if (!books)
		return false;
	if (is_forked()) {
		is_inside = true;
		call = NULL;
		begin_fork();
		is_inside = false;
	}
	if (!books)
		return false; /* forked into a process that cannot read its environment */
	return has_vforked || kernel_says(SYS_getpid) == (pid_t)books->pid;
}

static void thread_end(void *unused)
{
	(void)unused;
	if (is_ours())
		forget_call(call);
}

static void begin(void)
{
	is_inside = true;
	begin_books();
	if (books && pthread_key_create(&thread_key, thread_end))
		die("cannot know when threads end\n");
	is_inside = false;
}

static struct ledger_call *new_call(void)
{
	uint64_t at = __atomic_fetch_add(&books->threads, 1, __ATOMIC_RELAXED);

	if (at >= LEDGER_THREADS_MAX)
		die("too many threads\n");
	books->call[at].thread = kernel_says(SYS_gettid);
	return &books->call[at];
}

/* Whether the call counts; if so, the thread is inside until leave(). */
static inline bool enter(const void *pointer)
{
	bool is_new;

	if (is_inside) {
		if (books)
			__atomic_fetch_add(&books->nested_calls, 1, __ATOMIC_RELAXED);
		return false;
	}
	if (!next.malloc)
		begin();
	if (!is_ours())
		return false;
	is_inside = true;
	is_new = !call;
	if (is_new)
		call = new_call();
	call->pointer = (uint64_t)pointer;
	call->result = 0;
	__atomic_store_n(&call->is_inside, 1, __ATOMIC_SEQ_CST);
	if (is_new)
		pthread_setspecific(thread_key, call);
	return true;
}

static inline void leave(void)
{
	__atomic_store_n(&call->is_inside, 0, __ATOMIC_SEQ_CST);
	is_inside = false;
}

/* ---- the allocator's functions ------------------------------------------------------------- */

static uint64_t product(size_t n, size_t size)
{
	uint64_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? UINT64_MAX : bytes;
}

EXPORT void *malloc(size_t size)
{
	bool is_counted = enter(NULL);
	void *p = next.malloc ? next.malloc(size) : early_malloc(size);

	if (is_counted) {
		record_allocation(call, p, size);
		leave();
	}
	return p;
}

EXPORT void *calloc(size_t n, size_t size)
{
	bool is_counted = enter(NULL);
	void *p = next.malloc ? next.calloc(n, size) : early_malloc(product(n, size));

	if (is_counted) {
		record_allocation(call, p, product(n, size));
		leave();
	}
	return p;
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	bool is_counted = enter(NULL);
	void *p = next.memalign(alignment, size);

	if (is_counted) {
		record_allocation(call, p, size);
		leave();
	}
	return p;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	bool is_counted = enter(NULL);
	void *p = next.aligned_alloc(alignment, size);

	if (is_counted) {
		record_allocation(call, p, size);
		leave();
	}
	return p;
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
	bool is_counted = enter(NULL);
	int err = next.posix_memalign(ret, alignment, size);

	if (is_counted) {
		record_allocation(call, err ? NULL : *ret, size);
		leave();
	}
	return err;
}

EXPORT void *valloc(size_t size)
{
	bool is_counted = enter(NULL);
	void *p = next.valloc(size);

	if (is_counted) {
		record_allocation(call, p, size);
		leave();
	}
	return p;
}

EXPORT void *pvalloc(size_t size)
{
	bool is_counted = enter(NULL);
	void *p = next.pvalloc(size);

	if (is_counted) {
		record_allocation(call, p, size);
		leave();
	}
	return p;
}

EXPORT void *realloc(void *old, size_t size)
{
	bool is_counted = enter(old), was_there;
	uint64_t old_size = 0;
	void *p;

	if (!is_counted)
		return next.realloc(old, size);
	was_there = begin_realloc(old, &old_size);
	p = next.realloc(old, size);
	end_realloc(call, was_there, old_size, p, size);
	leave();
	return p;
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
	bool is_counted = enter(old), was_there;
	uint64_t old_size = 0;
	void *p;

	if (!is_counted)
		return next.reallocarray(old, n, size);
	was_there = begin_realloc(old, &old_size);
	p = next.reallocarray(old, n, size);
	end_realloc(call, was_there, old_size, p, product(n, size));
	leave();
	return p;
}

static void pass_free(void *p)
{
	if (!is_early(p))
		next.free(p);
}

EXPORT void free(void *p)
{
	if (!p)
		return;
	if (!enter(p)) {
		pass_free(p);
		return;
	}
	record_free(call, p);
	pass_free(p);
	leave();
}

__attribute__((constructor)) static void begin_without_calls(void)
{
	if (!next.malloc)
		begin();
}
