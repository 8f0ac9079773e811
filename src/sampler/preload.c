// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * liballocsnap-sampler.so: preloaded into a program, it fires the probes of countdown.h for samples of the blocks.
 *
 *	LD_PRELOAD=liballocsnap-sampler.so ALLOCSNAP_SAMPLE=512K PROGRAM…
 *
 * A thread counts the bytes that it asks for down from a random distance. The block in which the count falls below 0 is
 * a sample, if a program listens. A free looks at one byte to know that its block is no sample. Everything else is in
 * the slow paths, which run once in `interval` bytes.
 *
 * The library takes no locks, makes no system calls, writes to no file, and allocates nothing. It calls the C library
 * by names without versions, so one build is for every version of glibc, and for musl. It stays loaded for good.
 *
 * Blocks of 0 bytes are never samples. Neither are blocks of the next allocator's own functions (mallocx; operator new of
 * jemalloc, unless SAMPLER_OPERATORS is defined): see enum sampler_flag.
 */
#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>
#include "sampler/countdown.h"
#include "sampler/next_allocator.h"
#include "sampler/sampled_set.h"

/* glibc has the first one, musl the second. */
#pragma weak __register_atfork
#pragma weak pthread_atfork
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *dso_handle);

static void early_is_used(uintptr_t address)
{
	*filter_place(address) = FILTER_ALWAYS; /* so that free() looks at it */
}

static bool allocator_has(const struct allocator *allocator, const void *function)
{
	Dl_info info, other;

	return function && dladdr(function, &info) && dladdr((void *)allocator->malloc, &other) &&
	       info.dli_fbase == other.dli_fbase;
}

/* ---- distances ---- */

static __thread struct countdown mine __attribute__((tls_model("initial-exec")));

static bool has_nested_calls; /* the next allocator calls itself by our names, as musl's calloc() calls malloc() */

/* Whether n bytes are counted and no slow path is needed. */
static inline bool pass_malloc(uint64_t n)
{
	return count_down(&mine, n);
}

static inline bool pass(uint64_t n)
{
	return !unlikely(has_nested_calls) && pass_malloc(n);
}

/* A call of the next allocator, in a slow path. */
struct call {
	uint64_t interval; /* the block is a sample of this interval; 0: it is none */
	struct countdown after;
};

static inline struct call begin_call(uint64_t n)
{
	struct call call;

	if (unlikely(!has_begun))
		find_next_allocator();
	call.interval = count_to_sample(&mine, n, (uintptr_t)__builtin_frame_address(0));
	call.after = has_nested_calls ? stop_counting(&mine, (uintptr_t)__builtin_frame_address(0)) : mine;
	return call;
}

static inline void *end_call(struct call call, void *block, uint64_t n)
{
	if (has_nested_calls)
		mine = call.after;
	if (call.interval && block)
		enter_sample((uintptr_t)block, (struct sampled_block){ n, poisson_weight(n, call.interval) });
	return block;
}

/* ---- the functions ---- */

SLOW void *slow_malloc(size_t n)
{
	struct call call = begin_call(n);

	return end_call(call, next.malloc(n), n);
}

EXPORT void *malloc(size_t n)
{
	return pass_malloc(n) ? next.malloc(n) : slow_malloc(n);
}

SLOW void *slow_calloc(size_t n, size_t size)
{
	struct call call = begin_call(n * size);

	return end_call(call, next.calloc(n, size), n * size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || pass(bytes))
		return next.calloc(n, size);
	return slow_calloc(n, size);
}

SLOW void slow_free(void *block)
{
	if (is_early(block))
		return;
	leave_sample((uintptr_t)block);
	next.free(block);
}

EXPORT void free(void *block)
{
	if (unlikely(filter_may_have((uintptr_t)block)))
		slow_free(block);
	else
		next.free(block);
}

/* glibc before 2.26 */
EXPORT void cfree(void *block)
{
	free(block);
}

/*
 * A free of the old block and an allocation of the new one. The old address may be given out again before the next
 * realloc() returns, so the sampler reports its free before the call. If the call fails the old block is entered again.
 */
SLOW void *slow_realloc(void *old, size_t n)
{
	struct sampled_block was;
	struct call call;
	void *block;

	if (is_early(old))
		return realloc_early(old, n);
	was = leave_sample((uintptr_t)old);
	call = begin_call(n);
	block = end_call(call, next.realloc(old, n), n);
	if (!block && n && was.weight)
		enter_sample((uintptr_t)old, was);
	return block;
}

EXPORT void *realloc(void *old, size_t n)
{
	if (unlikely(filter_may_have((uintptr_t)old)) || !pass(n))
		return slow_realloc(old, n);
	return next.realloc(old, n);
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
	size_t bytes;

	if (!__builtin_mul_overflow(n, size, &bytes))
		return realloc(old, bytes);
	errno = ENOMEM;
	return NULL;
}

#define ALIGNED_FUNCTION(name)                                                \
	EXPORT void *name(size_t alignment, size_t n)                         \
	{                                                                     \
		struct call call = begin_call(n);                             \
                                                                              \
		return end_call(call, next.name(alignment, n), n);            \
	}
ALIGNED_FUNCTION(memalign)
ALIGNED_FUNCTION(aligned_alloc)

EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t n)
{
	struct call call = begin_call(n);
	int err = next.posix_memalign(ret_block, alignment, n);

	end_call(call, err ? NULL : *ret_block, n);
	return err;
}

#define PAGES_FUNCTION(name)                                                  \
	EXPORT void *name(size_t n)                                           \
	{                                                                     \
		struct call call = begin_call(n);                             \
                                                                              \
		return end_call(call, next.name(n), n);                       \
	}
PAGES_FUNCTION(valloc)
PAGES_FUNCTION(pvalloc)

#ifdef SAMPLER_OPERATORS
#include "sampler/operators.h"
#else
static const void *unseen_new;

static void find_unseen_new(void)
{
	unseen_new = dlsym(RTLD_NEXT, "_Znwm");
}

static void flag_unseen_new(const struct allocator *allocator)
{
	if (allocator_has(allocator, unseen_new))
		allocsnap_sampler.flags |= SAMPLER_OPERATORS_UNSEEN;
}

#define find_operators find_unseen_new
#define choose_operators flag_unseen_new
#endif

/* ---- the start ---- */

/* Whether the calls that `asked` makes to itself come to us; without it, whether the calls of all others do. */
static bool comes_to_us(const struct allocator *asked)
{
	struct countdown kept = mine;
	void *block = NULL;
	bool has_come;

	mine = (struct countdown){ NEVER, 1 };
	if (asked) {
		asked->free(asked->calloc(1, 1));
		asked->free(asked->realloc(NULL, 1));
		asked->free(asked->memalign(64, 1));
		if (!asked->posix_memalign(&block, 64, 1))
			asked->free(block);
	} else {
		free(malloc(1));
	}
	has_come = mine.left != NEVER;
	mine = kept;
	return has_come;
}

static void find_next_allocator(void)
{
	const uint64_t *random = (const uint64_t *)getauxval(AT_RANDOM);
	struct allocator found;
	const void *dallocx;

	use_early_allocator();
	countdown_seed = poisson_mix((random ? random[1] : 0) ^ (uintptr_t)&found);
	find_operators();
	dallocx = dlsym(RTLD_NEXT, "dallocx");
	found = allocator_find_next(); /* at last: it leaves no error for the program's dlerror() */
	next = found;
	has_nested_calls = comes_to_us(&next);
	if (!comes_to_us(NULL))
		allocsnap_sampler.flags |= SAMPLER_BYPASSED;
	if (allocator_has(&next, dallocx))
		allocsnap_sampler.flags |= SAMPLER_EXTENSIONS_UNSEEN;
	choose_operators(&next);
}

/* The bytes that "512K" says, or 0: it says none. */
static uint64_t parse_interval(const char *text)
{
	static const char unit[] = "KMG";
	uint64_t bytes = 0;

	for (; *text >= '0' && *text <= '9' && bytes <= SAMPLER_INTERVAL_MAX; text++)
		bytes = 10 * bytes + (*text - '0');
	for (int i = 0; i < 3 && bytes <= SAMPLER_INTERVAL_MAX; i++)
		if (*text == unit[i]) {
			bytes <<= 10 * (i + 1);
			text++;
			break;
		}
	return *text || bytes > SAMPLER_INTERVAL_MAX ? 0 : bytes;
}

static void read_environment(void)
{
	static const char name[] = SAMPLER_INTERVAL_VARIABLE "=";
	uint64_t interval;

	for (char **entry = environ; entry && *entry; entry++) {
		size_t at = 0;

		while (name[at] && (*entry)[at] == name[at])
			at++;
		if (name[at])
			continue;
		interval = parse_interval(*entry + at);
		if (interval)
			allocsnap_sampler.interval = allocsnap_sampler.interval_most =
				allocsnap_sampler.interval_chosen = interval;
		else
			allocsnap_sampler.flags |= SAMPLER_BAD_INTERVAL;
	}
}

/* A child draws other distances than its parent and than its siblings. */
static void before_fork(void)
{
	next_random();
}

static void after_fork_in_child(void)
{
	countdown_seed = poisson_mix(~countdown_seed);
}

static __attribute__((constructor)) void start_sampler(void)
{
	if (!has_begun)
		find_next_allocator();
	read_environment();
	mine = (struct countdown){}; /* this thread's distance is still of the default interval */
	if (__register_atfork)
		__register_atfork(before_fork, NULL, after_fork_in_child, NULL);
	else if (pthread_atfork)
		pthread_atfork(before_fork, NULL, after_fork_in_child);
}
