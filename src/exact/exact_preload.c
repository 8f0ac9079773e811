// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * liballocsnap-exact.so: preloaded into a program, it enters each block of its heap into books (books.h), with the traceback
 * of its call.
 *
 *	LD_PRELOAD=liballocsnap-exact.so ALLOCSNAP_EXACT=PID PROGRAM…
 *
 * Only the process with that PID has books: not its children. At its first call it makes them, and waits once until a recorder
 * has opened them. After that a call takes no lock and allocates nothing. It makes a system call only where a thread meets a
 * page of its stack for the first time. The library stays loaded for good.
 *
 * Not seen: blocks of the next allocator's own functions (mallocx; operator new of jemalloc).
 */
#include <linux/futex.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <fcntl.h>
#include <unistd.h>

#include "exact/exact_preload.h"
#include "sampler/next_allocator.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- the books ---- */

static uint64_t books_base;
static __attribute__((aligned(4096))) union {
	volatile uint64_t is_on; /* a page of its own: a child has 0 there (MADV_WIPEONFORK) */
	char page[4096];
} books_on;

static uint64_t main_stack_end, main_pointer;
static __thread uint32_t own_tid __attribute__((tls_model("initial-exec")));

#define BOOKS_BASE books_base
/* The first call of the program begins them. */
static bool has_begun_books(void);
#define BOOKS_ARE_ON (likely(books_on.is_on) || unlikely(has_begun_books()))
#define BOOKS_OWN_TID own_tid
#define BOOKS_MAIN_STACK_END main_stack_end
#define BOOKS_MAIN_POINTER main_pointer
#define BOOKS_MAY_CALL true

#include "exact/books_writer.h"

/* ---- threads ---- */

static __thread struct books_thread *own_slot __attribute__((tls_model("initial-exec")));

static __attribute__((noinline)) struct books_thread *begin_thread(void)
{
	int saved = errno;

	if (!own_tid)
		own_tid = syscall(SYS_gettid);
	errno = saved;
	own_slot = find_thread_slot();
	return own_slot;
}

static inline struct books_thread *own_thread_slot(void)
{
	return likely(own_slot) && likely(LOAD(own_slot->tid) == own_tid) ? own_slot : begin_thread();
}

#include "exact/native_calls.h"

/* ---- the functions ---- */

#define FRAME ((const uint64_t *)__builtin_frame_address(0))

EXPORT void *malloc(size_t n)
{
	const struct hook hook = begin_recorded(FRAME);

	return (void *)end_recorded(&hook, (uint64_t)next.malloc(n), n);
}

EXPORT void *calloc(size_t n, size_t size)
{
	const struct hook hook = begin_recorded(FRAME);

	return (void *)end_recorded(&hook, (uint64_t)next.calloc(n, size), n * size);
}

EXPORT void free(void *block)
{
	if (likely(block))
		leave_freed((uint64_t)block);
	if (unlikely(is_early(block)))
		return;
	next.free(block);
}

/* glibc before 2.26 */
EXPORT void cfree(void *block)
{
	free(block);
}

EXPORT void free_sized(void *block, size_t size)
{
	(void)size;
	free(block);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	(void)alignment, (void)size;
	free(block);
}

/* jemalloc's own: programs that find them free and resize malloc's blocks by them. Another allocator's functions do the same. */
static void (*next_dallocx)(void *block, int flags);
static void (*next_sdallocx)(void *block, size_t size, int flags);
static void *(*next_rallocx)(void *was, size_t size, int flags);
static size_t (*next_xallocx)(void *block, size_t size, size_t more, int flags);

EXPORT void dallocx(void *block, int flags)
{
	if (!next_dallocx)
		return free(block);
	leave_freed((uint64_t)block);
	next_dallocx(block, flags);
}

EXPORT void sdallocx(void *block, size_t size, int flags)
{
	if (!next_sdallocx)
		return free(block);
	leave_freed((uint64_t)block);
	next_sdallocx(block, size, flags);
}

static inline void *realloc_from(void *was, size_t size, const uint64_t *frame)
{
	const struct hook hook = begin_recorded(frame);
	const struct left_block old = leave_old(&hook, (uint64_t)was);

	return (void *)end_realloc(&hook, &old, (uint64_t)next.realloc(was, size), size, size != 0);
}

EXPORT void *realloc(void *was, size_t size)
{
	return unlikely(is_early(was)) ? realloc_early(was, size) : realloc_from(was, size, FRAME);
}

EXPORT void *rallocx(void *was, size_t size, int flags)
{
	const struct hook hook = begin_recorded(FRAME);
	struct left_block old;
	void *block;

	if (!next_rallocx) {
		end_recorded(&hook, 0, 0);
		return flags ? NULL : realloc(was, size);
	}
	old = leave_old(&hook, (uint64_t)was);
	block = next_rallocx(was, size, flags);
	return (void *)end_realloc(&hook, &old, (uint64_t)block, size, true);
}

EXPORT size_t xallocx(void *block, size_t size, size_t more, int flags)
{
	const struct hook hook = begin_recorded(FRAME);
	size_t now = next_xallocx ? next_xallocx(block, size, more, flags) : 0;

	end_resize(&hook, (uint64_t)block, size, next_xallocx && now >= size);
	return now;
}

EXPORT void *reallocarray(void *was, size_t n, size_t size)
{
	size_t bytes;

	if (!__builtin_mul_overflow(n, size, &bytes)) {
		if (unlikely(!BOOKS_ARE_ON))
			return realloc(was, bytes); /* perhaps the program's own one (malloc_comes_here()) */
		return unlikely(is_early(was)) ? realloc_early(was, bytes) : realloc_from(was, bytes, FRAME);
	}
	errno = ENOMEM;
	return NULL;
}

#define ALIGNED_FUNCTION(name)                                         \
	EXPORT void *name(size_t alignment, size_t n)                  \
	{                                                              \
		const struct hook hook = begin_recorded(FRAME);            \
                                                                       \
		return (void *)end_recorded(&hook, (uint64_t)next.name(alignment, n), n); \
	}
ALIGNED_FUNCTION(memalign)
ALIGNED_FUNCTION(aligned_alloc)

EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t n)
{
	const struct hook hook = begin_recorded(FRAME);
	int err = next.posix_memalign(ret_block, alignment, n);

	end_recorded(&hook, err ? 0 : (uint64_t)*ret_block, n);
	return err;
}

#define PAGES_FUNCTION(name)                                           \
	EXPORT void *name(size_t n)                                    \
	{                                                              \
		const struct hook hook = begin_recorded(FRAME);            \
                                                                       \
		return (void *)end_recorded(&hook, (uint64_t)next.name(n), n); \
	}
PAGES_FUNCTION(valloc)
PAGES_FUNCTION(pvalloc)

/* ---- code that goes ---- */

static int (*next_dlclose)(void *handle);

static void note_closing(void)
{
	const struct books_known *known;
	struct timespec now;

	if (!BOOKS_ARE_ON)
		return;
	known = books_known(__atomic_load_n(&HEAD->known_nr, __ATOMIC_ACQUIRE));
	if (LOAD(known->closed_nr) == LOAD(HEAD->closed_nr) && !clock_gettime(CLOCK_MONOTONIC, &now))
		__atomic_store_n(&HEAD->closed_ns, now.tv_sec * UINT64_C(1000000000) + now.tv_nsec, __ATOMIC_RELAXED);
	__atomic_fetch_add(&HEAD->closed_nr, 1, __ATOMIC_SEQ_CST);
}

/* Other code may come to the same addresses. Until the recorder has looked again, stacks are copied. */
EXPORT int dlclose(void *handle)
{
	int result;

	note_closing();
	result = next_dlclose ? next_dlclose(handle) : 1;
	note_closing();
	return result;
}

/* ---- memory that is locked ---- */

/*
 * To lock the books is to make all of their pages, some 15 GiB. So no page is made here: what is there is locked, other pages
 * are when they are touched, and the books are not.
 */
EXPORT int mlockall(int flags)
{
	if (!books_base || !(flags & MCL_CURRENT))
		return syscall(SYS_mlockall, flags);
	if (syscall(SYS_mlockall, MCL_CURRENT | MCL_ONFAULT))
		return -1;
	munlock((void *)books_base, BOOKS_BYTES);
	return flags & MCL_FUTURE ? syscall(SYS_mlockall, flags & ~MCL_CURRENT) : 0;
}

/* ---- a limit on addresses ---- */

static rlim_t limit_with_books(rlim_t limit, rlim_t most)
{
	if (limit >= most)
		return limit;
	return most - limit < BOOKS_BYTES ? most : limit + BOOKS_BYTES;
}

/* The books count for a limit that the program sets itself. So it is set higher by their size, as far as the hard limit allows. */
static int set_limit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *ret_before)
{
	struct rlimit room = limit ? *limit : (struct rlimit){}, now;

	if (limit && resource == RLIMIT_AS && books_base && (!pid || pid == getpid()) && !getrlimit(RLIMIT_AS, &now)) {
		room.rlim_cur = limit_with_books(room.rlim_cur, now.rlim_max);
		room.rlim_max = limit_with_books(room.rlim_max, now.rlim_max);
	}
	return syscall(SYS_prlimit64, pid, resource, limit ? &room : NULL, ret_before);
}

/* C libraries declare these with types of their own. */
EXPORT int set_own_limit(int resource, const struct rlimit *limit) __asm__("setrlimit");
EXPORT int set_any_limit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *ret_before) __asm__("prlimit");

int set_own_limit(int resource, const struct rlimit *limit)
{
	return set_limit(0, resource, limit, NULL);
}

int set_any_limit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *ret_before)
{
	return set_limit(pid, resource, limit, ret_before);
}

__asm__(".globl setrlimit64, prlimit64\n.set setrlimit64, setrlimit\n.set prlimit64, prlimit");

/* ---- the start ---- */

#define WAIT_MOST_S 5 /* for the recorder */

static bool is_wanted(void)
{
	pid_t pid = getpid(); /* the recorder may clear the variable until the first system call of a program */
	const char *wanted = getenv(EXACT_VARIABLE);
	struct rlimit file_size;

	return wanted && strtol(wanted, NULL, 10) == pid && !getrlimit(RLIMIT_FSIZE, &file_size) && file_size.rlim_cur >= BOOKS_BYTES;
}

static volatile bool was_called; /* while there are no books */
extern void *own_malloc(size_t n) __attribute__((copy(malloc), alias("malloc"), visibility("hidden")));

/*
 * A program that has a malloc in its own file calls that one, which calls ours only if it is made so. To be called while the early
 * allocator answers: the next one does not see it.
 */
static bool malloc_comes_here(void)
{
	void *(*first)(size_t) = dlsym(RTLD_DEFAULT, "malloc");
	void (*free_first)(void *) = dlsym(RTLD_DEFAULT, "free");

	if (first == own_malloc || !first || !free_first)
		return true;
	was_called = false;
	free_first(first(1));
	return was_called;
}

/* A forked child has them, too: a handler that forked may return to a hook there. */
static bool make_books(void)
{
	int fd = syscall(SYS_memfd_create, EXACT_BOOKS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *books = MAP_FAILED;

	if (fd < 0)
		return false;
	if (!ftruncate(fd, BOOKS_BYTES) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		books = mmap(NULL, BOOKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	if (books == MAP_FAILED || madvise(&books_on, sizeof(books_on), MADV_WIPEONFORK) ||
	    madvise(books, BOOKS_BYTES, MADV_DONTDUMP))
		return false;
	madvise(books, BOOKS_BYTES, MADV_NOHUGEPAGE); /* they are sparse; a kernel without huge pages does not know it */
	books_base = (uint64_t)books;
	return true;
}

/* Whether a recorder has opened the books, and said what code there is. */
static bool await_recorder(void)
{
	const struct timespec limit = { .tv_nsec = 100000000 };

	for (int i = 0; i < 10 * WAIT_MOST_S && !__atomic_load_n(&HEAD->known_nr, __ATOMIC_ACQUIRE); i++)
		syscall(SYS_futex, &HEAD->known_nr, FUTEX_WAIT, 0, &limit, NULL, 0);
	return __atomic_load_n(&HEAD->known_nr, __ATOMIC_ACQUIRE);
}

static void begin_books(bool is_called)
{
	static const char magic[8] = BOOKS_MAGIC;
	int saved = errno;

	main_stack_end = getauxval(AT_RANDOM);
	main_pointer = own_thread_pointer();
	if (is_called && is_wanted() && make_books()) {
		HEAD->version = BOOKS_VERSION;
		HEAD->kind = BOOKS_OF_MALLOC;
		for (unsigned int i = 0; i < sizeof(magic); i++)
			HEAD->magic[i] = magic[i];
		books_on.is_on = await_recorder();
	}
	errno = saved;
}

static void early_is_used(uintptr_t address)
{
	(void)address;
}

static bool has_begun_books(void)
{
	was_called = true;
	if (likely(has_begun))
		return false;
	find_next_allocator();
	return books_on.is_on;
}

static void find_next_allocator(void)
{
	struct allocator found;
	bool is_called;

	use_early_allocator();
	next_dlclose = dlsym(RTLD_NEXT, "dlclose");
	next_dallocx = dlsym(RTLD_NEXT, "dallocx");
	next_sdallocx = dlsym(RTLD_NEXT, "sdallocx");
	next_rallocx = dlsym(RTLD_NEXT, "rallocx");
	next_xallocx = dlsym(RTLD_NEXT, "xallocx");
	found = allocator_find_next(); /* at last: it leaves no error for the program's dlerror() */
	is_called = malloc_comes_here();
	next = found;
	begin_books(is_called);
}

static __attribute__((constructor)) void start_books(void)
{
	if (!has_begun)
		find_next_allocator();
}
