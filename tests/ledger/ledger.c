// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A ledger, preloaded: it counts every allocator call of a program, inside the program and by other
 * means than the profiler. Its counters have the profiler's meanings: a nested call counts once, with
 * the outermost call; a size is the requested one; a realloc that succeeds is a block removed and a
 * block entered; a block is entered after the allocator has returned it and removed before the
 * allocator frees it.
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
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger.h"
#include "raw_call.h"

#define SLOT_NR (1ULL << 20)
#define ENVIRONMENT_MAX (1 << 20)
#define STOPS_MAX 7

/* The next definitions of the allocator's functions after our own. */
static struct {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *p, size_t size);
	void *(*reallocarray)(void *p, size_t n, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*aligned_alloc)(size_t alignment, size_t size);
	int (*posix_memalign)(void **p, size_t alignment, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
	void (*free)(void *p);
} next;

static struct account *account; /* NULL: none are kept */
static bool has_vforked; /* the ledger belongs to the memory, not to the process */
static uint64_t stop_after[STOPS_MAX + 1]; /* so many allocations, in order; 0: the end */

/* ---- the beginning: it finds the next allocator, and makes its file ---- */

__attribute__((noreturn)) static void die(const char *what)
{
	static const char who[] = "ledger: ";

	if (write(STDERR_FILENO, who, sizeof(who) - 1) >= 0 &&
	    write(STDERR_FILENO, what, strlen(what)) >= 0)
		_exit(99);
	_exit(98);
}

/* NAME,ALLOCATIONS…: if this program has the name, it stops itself each time when it has made that many. */
static void find_stops(const char *text)
{
	char name[16] = "";
	size_t len;

	prctl(PR_GET_NAME, name);
	len = strlen(name);
	if (strncmp(text, name, len) || text[len] != ',')
		return;
	text += len;
	for (int i = 0; i < STOPS_MAX && *text == ','; i++)
		stop_after[i] = strtoull(text + 1, (char **)&text, 10);
}

/* From the kernel: this may run before the C library has its own environment. */
static void read_environment(char *folder, size_t size)
{
	static char text[ENVIRONMENT_MAX];
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got;

	while (fd >= 0 && len < sizeof(text) - 1 &&
	       (got = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += got;
	if (fd >= 0)
		close(fd);
	for (char *line = text; line < text + len; line += strlen(line) + 1) {
		has_vforked |= !strcmp(line, "LEDGER_VFORK=");
		if (!strncmp(line, "LEDGER=", 7) && strlen(line + 7) < size)
			strcpy(folder, line + 7);
		if (!strncmp(line, "LEDGER_STOPS=", 13))
			find_stops(line + 13);
	}
}

static int create_file(const char *folder)
{
	char path[512];
	int fd = -1;

	for (int i = 0; i < 100 && fd < 0; i++) {
		snprintf(path, sizeof(path), "%s/%d.%d", folder, getpid(), i);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

static void open_account(void)
{
	size_t size = sizeof(struct account) + SLOT_NR * sizeof(struct ledger_block);
	char folder[400] = "";
	struct account *map;
	int fd;

	read_environment(folder, sizeof(folder));
	if (!*folder)
		return;
	fd = create_file(folder);
	if (fd < 0 || ftruncate(fd, size))
		die("cannot create its file\n");
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		die("cannot map its file\n");
	map->slot_nr = SLOT_NR;
	map->pid = getpid();
	__atomic_store_n(&map->magic, LEDGER_MAGIC, __ATOMIC_RELEASE);
	account = map;
}

#define FIND(name) (next.name = dlsym(RTLD_NEXT, #name))

static void find_next(void)
{
	FIND(calloc);
	FIND(realloc);
	FIND(reallocarray);
	FIND(memalign);
	FIND(aligned_alloc);
	FIND(posix_memalign);
	FIND(valloc);
	FIND(pvalloc);
	FIND(free);
	if (!FIND(malloc))
		die("there is no malloc\n");
}

static volatile char *mark; /* the kernel wipes it in a forked child, and only there */

static void set_mark(void)
{
	void *page = mark ? (void *)mark :
			    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK))
		die("cannot know when it is forked\n");
	mark = page;
	*mark = 1;
}

/* Whether the process is a fork of the one that began the ledger; begin_fork() begins its own. */
static bool is_forked(void)
{
	return !*mark;
}

static void begin_fork(void)
{
	account = NULL;
	set_mark();
	open_account();
}

/* Finds the allocator and opens the ledger. Call it before there are threads; a second call does nothing. */
static void begin_account(void)
{
	static bool has_begun;

	if (has_begun)
		return;
	has_begun = true;
	find_next();
	set_mark();
	open_account();
}

static char early[1 << 16] __attribute__((aligned(16)));
static size_t early_used;

static bool is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

/* Memory for calls that come while the ledger looks for the allocator; it is never freed. */
static void *early_malloc(size_t size)
{
	void *p = early + early_used;

	early_used += (size + 15) & ~15UL;
	if (early_used > sizeof(early))
		die("too many calls while it looks for malloc\n");
	return p;
}

/* ---- the contents: a table of blocks and a few sums, under one lock ---- */

static void lock(void)
{
	while (__atomic_exchange_n(&account->lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock(void)
{
	__atomic_store_n(&account->lock, 0, __ATOMIC_RELEASE);
}

static void put(uint64_t address, uint64_t size)
{
	uint64_t at = ledger_find(account, address);

	if (account->current_blocks > account->slot_nr / 4 * 3) {
		account->blocks_dropped++;
		return;
	}
	account->blocks_replaced += account->block[at].address != 0;
	account->block[at] = (struct ledger_block){ address, size };
}

/* Closes the hole: moves entries that a full place had pushed on, so that each is found from its own place again. */
static void close_hole(uint64_t hole)
{
	uint64_t mask = account->slot_nr - 1;

	for (uint64_t at = (hole + 1) & mask; account->block[at].address; at = (at + 1) & mask) {
		uint64_t home = ledger_slot(account, account->block[at].address);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		account->block[hole] = account->block[at];
		hole = at;
	}
	account->block[hole] = (struct ledger_block){};
}

static bool take(uint64_t address, uint64_t *ret_size)
{
	uint64_t at = ledger_find(account, address);

	if (!account->block[at].address)
		return false;
	*ret_size = account->block[at].size;
	close_hole(at);
	return true;
}

/* Goes no further until somebody has looked. */
static void stop_here(void)
{
	static unsigned int nr;

	if (account->allocations != stop_after[nr])
		return;
	nr++;
	kill(getpid(), SIGSTOP);
}

static void count_entered(uint64_t size)
{
	account->allocations++;
	account->allocated_bytes += size;
	account->current_blocks++;
	account->current_bytes += size;
	if (account->peak_bytes < account->current_bytes)
		account->peak_bytes = account->current_bytes;
	stop_here();
}

/* address: 0 if the call has failed. */
static void enter_block(uint64_t address, uint64_t size)
{
	if (!address) {
		account->failed_calls++;
		return;
	}
	put(address, size);
	count_entered(size);
}

static void count_removed(uint64_t size)
{
	account->frees++;
	account->freed_bytes += size;
	account->current_blocks--;
	account->current_bytes -= size;
}

/* The probes may still be at this thread's previous call, or at this one when it is over. */
static void weigh(struct ledger_call *call, uint64_t bytes)
{
	uint64_t weight = call->bytes > bytes ? call->bytes : bytes;

	account->in_flight += weight - call->weight;
	call->weight = weight;
	call->bytes = bytes;
	if (account->most_in_flight < account->in_flight)
		account->most_in_flight = account->in_flight;
}

static void record_allocation(struct ledger_call *call, void *p, uint64_t size)
{
	lock();
	weigh(call, p ? size : 0);
	call->result = (uint64_t)p;
	enter_block((uint64_t)p, size);
	unlock();
}

static void record_free(struct ledger_call *call, void *p)
{
	uint64_t size = 0;

	lock();
	if (take((uint64_t)p, &size))
		count_removed(size);
	else
		account->unknown_frees++;
	weigh(call, size);
	unlock();
}

/* Whether the block was there; its size. Another thread may get the address before realloc returns. */
static bool begin_realloc(void *p, uint64_t *ret_old_size)
{
	bool was_there;

	lock();
	was_there = p && take((uint64_t)p, ret_old_size);
	unlock();
	return was_there;
}

static void end_realloc(struct ledger_call *call, bool was_there, uint64_t old_size, void *p, uint64_t size)
{
	bool has_failed = !p && size;

	lock();
	weigh(call, old_size + (p ? size : 0));
	call->result = (uint64_t)p;
	if (was_there && has_failed)
		put(call->pointer, old_size);
	else if (was_there)
		count_removed(old_size);
	else if (call->pointer && !has_failed)
		account->unknown_frees++;
	enter_block((uint64_t)p, size);
	unlock();
}

/* The thread ends. */
static void forget_call(struct ledger_call *call)
{
	lock();
	account->threads_ended++;
	account->in_flight -= call->weight;
	call->weight = call->bytes = 0;
	unlock();
}

/* ---- threads ---- */

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN_TLS static __thread __attribute__((tls_model("initial-exec")))

static pthread_key_t thread_key;
HIDDEN_TLS struct ledger_call *call;
HIDDEN_TLS bool is_inside;

/* Without arguments; not libc's: a thread that is stopped there would be at no edge of a call (halt.c). */
static inline pid_t kernel_says(long nr)
{
	return raw_call(nr, 0, 0, 0, 0, 0, 0);
}

/* Not in a vforked child, which has our memory; a forked one begins anew. */
static inline bool is_ours(void)
{
	if (!account)
		return false;
	if (is_forked()) {
		is_inside = true;
		call = NULL;
		begin_fork();
		is_inside = false;
	}
	if (!account)
		return false; /* forked into a process that cannot read its environment */
	return has_vforked || kernel_says(SYS_getpid) == (pid_t)account->pid;
}

static void thread_end(void *)
{
	if (is_ours())
		forget_call(call);
}

static void begin(void)
{
	is_inside = true;
	begin_account();
	if (account && pthread_key_create(&thread_key, thread_end))
		die("cannot know when threads end\n");
	is_inside = false;
}

static struct ledger_call *new_call(void)
{
	uint64_t at = __atomic_fetch_add(&account->threads, 1, __ATOMIC_RELAXED);

	if (at >= LEDGER_THREADS_MAX)
		die("too many threads\n");
	account->call[at].thread = kernel_says(SYS_gettid);
	return &account->call[at];
}

/* Whether the call counts; if so, the thread is inside until leave(). */
static inline bool enter(const void *pointer)
{
	bool is_new;

	if (is_inside) {
		if (account)
			__atomic_fetch_add(&account->nested_calls, 1, __ATOMIC_RELAXED);
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

/* The end of a call that gives a block. */
static inline void *given(bool is_counted, void *p, uint64_t size)
{
	if (is_counted) {
		record_allocation(call, p, size);
		leave();
	}
	return p;
}

EXPORT void *malloc(size_t size)
{
	bool is_counted = enter(NULL);

	return given(is_counted, next.malloc ? next.malloc(size) : early_malloc(size), size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	bool is_counted = enter(NULL);
	uint64_t bytes = product(n, size);

	return given(is_counted, next.malloc ? next.calloc(n, size) : early_malloc(bytes), bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	bool is_counted = enter(NULL);

	return given(is_counted, next.memalign(alignment, size), size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	bool is_counted = enter(NULL);

	return given(is_counted, next.aligned_alloc(alignment, size), size);
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
	bool is_counted = enter(NULL);
	int err = next.posix_memalign(ret, alignment, size);

	given(is_counted, err ? NULL : *ret, size);
	return err;
}

EXPORT void *valloc(size_t size)
{
	bool is_counted = enter(NULL);

	return given(is_counted, next.valloc(size), size);
}

EXPORT void *pvalloc(size_t size)
{
	bool is_counted = enter(NULL);

	return given(is_counted, next.pvalloc(size), size);
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
