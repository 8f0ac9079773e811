// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hooks in several threads at once, below signal handlers, and while snapshots are read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "compared_hooks.h"
#include "fake_python.h"
#include "full.h"

#define THREADS 4

static bool ends;

static bool is_ending(void)
{
	return __atomic_load_n(&ends, __ATOMIC_RELAXED);
}

static void begin_threads(pthread_t *thread, void *(*work)(void *), void *what, size_t bytes)
{
	__atomic_store_n(&ends, false, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, work, (char *)what + i * bytes), 0);
}

static void end_threads(pthread_t *thread)
{
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- Python's threads ---- */

static struct fake_python python;
static struct fake_row *exchange[16]; /* blocks that any thread may free */

static void exchange_block(struct fake_thread *thread)
{
	struct fake_row *row = calloc(1, sizeof(*row));

	fake_raw_block(thread, row);
	row = __atomic_exchange_n(&exchange[fake_random(thread, ARRAY_SIZE(exchange))], row, __ATOMIC_ACQ_REL);
	if (row)
		hook_raw_free(NULL, (void *)row->address);
	free(row);
}

static void *be_python_thread(void *thread_)
{
	struct fake_thread *thread = thread_;

	be_fake_thread(thread);
	for (int round = 0; round < full_or(100000, 10000); round++) {
		pthread_mutex_lock(&python.gil);
		for (int i = fake_random(thread, 20); i >= 0; i--)
			fake_step(&python, thread);
		pthread_mutex_unlock(&python.gil);
		for (int i = fake_random(thread, 20); i >= 0; i--)
			fake_raw_step(thread);
		exchange_block(thread);
	}
	return NULL;
}

Test(exact_threads, have_their_own_walks_and_share_the_raw_domain, .timeout = 600)
{
	static struct fake_thread threads[THREADS];
	struct read_books read = {};
	struct made_books made;
	pthread_t thread[THREADS];

	fake_python_begin(&python, 13, threads, THREADS, 7, &made);
	begin_threads(thread, be_python_thread, threads, sizeof(*threads));
	for (int i = 0; i < 20; i++) {
		int err = cut_and_read(&made, 2, false, &read);

		cr_expect(!err || err == -EAGAIN, "%d", err);
	}
	end_threads(thread);
	for (size_t i = 0; i < ARRAY_SIZE(exchange); i++)
		if (exchange[i])
			fake_adopt_row(&threads[0], exchange[i]);
	check_ledgers(&python, &made, "threads");
	cr_expect(MADE_HEAD(&made)->compared > 200000);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}

/* ---- snapshots while threads run: each has blocks of a thread that it had at one moment ---- */

#ifdef __SANITIZE_ADDRESS__
#define CUTS 10 /* its allocator gives each address once: much is to be read */
#else
#define CUTS full_or(5000, 100)
#endif

#define KEPT 48
#define ROUND 500 /* a block's number, modulo this, is in its size */

enum keeper_kind { SMALL, LARGE, MOVED, MIXED };

struct keeper {
	enum keeper_kind kind;
	uint32_t tid;
	void *block[KEPT];
};

static size_t size_of_number(enum keeper_kind kind, uint64_t number)
{
	bool is_large = kind == LARGE || (kind == MIXED && number % 3 == 0);

	return number % ROUND + (is_large ? 1000 : 0);
}

/* One block goes, the next one comes; some move in place of both. */
static void keep_next(struct keeper *keeper, uint64_t number)
{
	void **place = &keeper->block[number % KEPT];
	size_t size = size_of_number(keeper->kind, number);

	if (keeper->kind == MOVED || keeper->kind == MIXED) {
		*place = hook_raw_realloc(NULL, *place, size);
		return;
	}
	hook_raw_free(NULL, *place);
	*place = hook_raw_malloc(NULL, size);
}

static void *keep_blocks(void *keeper_)
{
	struct keeper *keeper = keeper_;
	uint64_t number = 0;

	for (; number < KEPT; number++)
		keep_next(keeper, number);
	__atomic_store_n(&keeper->tid, gettid(), __ATOMIC_RELEASE);
	for (; !is_ending(); number++)
		keep_next(keeper, number);
	for (int i = 0; i < KEPT; i++)
		hook_raw_free(NULL, keeper->block[i]);
	return NULL;
}

static void check_moment(const struct keeper *keeper, const struct read_books *read, int cut)
{
	const struct books_block *at[ROUND] = {};
	int nr = 0, first = -1, first_nr = 0, least = keeper->kind == MOVED || keeper->kind == MIXED ? KEPT : KEPT - 1;

	for (size_t i = 0; i < read->block_nr; i++)
		if (read->block[i].tid == keeper->tid) {
			cr_assert_null(at[read->block[i].size % 1000], "cut %d, kind %d: a number twice", cut, keeper->kind);
			at[read->block[i].size % 1000] = &read->block[i];
			nr++;
		}
	for (int i = 0; i < ROUND; i++)
		if (at[i] && !at[(i + ROUND - 1) % ROUND])
			first = i, first_nr++;
	cr_assert(nr >= least && nr <= KEPT, "cut %d, kind %d: %d blocks", cut, keeper->kind, nr);
	cr_assert_eq(first_nr, 1, "cut %d, kind %d: %d blocks in %d parts", cut, keeper->kind, nr, first_nr);
	for (int i = 1; i < nr; i++)
		cr_assert(at[(first + i) % ROUND]->birth_ns >= at[(first + i - 1) % ROUND]->birth_ns, "cut %d: births", cut);
}

static void wait_for_keepers(const struct keeper *keeper)
{
	for (int i = 0; i < THREADS; i++)
		while (!__atomic_load_n(&keeper[i].tid, __ATOMIC_ACQUIRE))
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

Test(exact_threads, have_all_blocks_of_one_moment_in_each_snapshot, .timeout = 1800)
{
	static struct keeper keeper[THREADS] = { { SMALL }, { LARGE }, { MOVED }, { MIXED } };
	static struct fake_thread none;
	struct read_books read = {};
	struct made_books made;
	pthread_t thread[THREADS];
	int late_nr = 0, cut_nr = CUTS;

	fake_python_begin(&python, 11, &none, 1, 1, &made);
	begin_threads(thread, keep_blocks, keeper, sizeof(*keeper));
	wait_for_keepers(keeper);
	for (int cut = 1; cut <= cut_nr; cut++) {
		int err = cut_and_read(&made, cut, false, &read);

		late_nr += err == -EAGAIN;
		cr_assert(!err || err == -EAGAIN, "%d", err);
		for (int i = 0; i < THREADS && !err; i++)
			check_moment(&keeper[i], &read, cut);
	}
	end_threads(thread);
	cr_expect(late_nr <= cut_nr / 10, "%d of %d cuts", late_nr, cut_nr);
	cr_assert_eq(cut_and_read(&made, cut_nr + 1, false, &read), 0);
	cr_expect_eq(read.block_nr, 0, "%zu blocks stay", read.block_nr);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}

/* ---- objects that begin again in blocks that free lists keep ---- */

struct renewer {
	uint64_t block[KEPT];
	uint32_t tid;
};

static void *renew_objects(void *renewer_)
{
	struct renewer *renewer = renewer_;
	uint64_t number = 0;

	pthread_mutex_lock(&python.gil);
	for (int i = 0; i < KEPT; i++)
		renewer->block[i] = (uint64_t)hook_object_malloc(NULL, (i % 3 ? 100 : 1000) + i);
	pthread_mutex_unlock(&python.gil);
	for (; !is_ending(); number++) {
		fake_object(renewer->block[number % KEPT], number % 4);
		if (number == KEPT)
			__atomic_store_n(&renewer->tid, gettid(), __ATOMIC_RELEASE);
	}
	pthread_mutex_lock(&python.gil);
	for (int i = 0; i < KEPT; i++)
		hook_object_free(NULL, (void *)renewer->block[i]);
	pthread_mutex_unlock(&python.gil);
	return NULL;
}

/* Each block once, and from some block on, in their order, births become later. */
static void check_renewed(const struct renewer *renewer, const struct read_books *read)
{
	uint64_t birth_ns[KEPT] = {};
	int falls = 0;

	for (size_t i = 0; i < read->block_nr; i++)
		if (read->block[i].tid == renewer->tid) {
			cr_assert_eq(birth_ns[read->block[i].size % 100], 0, "a block twice");
			birth_ns[read->block[i].size % 100] = read->block[i].birth_ns;
		}
	for (int i = 0; i < KEPT; i++) {
		cr_assert_neq(birth_ns[i], 0, "block %d is not there", i);
		falls += birth_ns[(i + 1) % KEPT] < birth_ns[i];
	}
	cr_assert(falls <= 1, "%d births that are not in order", falls);
}

Test(exact_threads, have_objects_of_free_lists_as_they_were_at_one_moment, .timeout = 600)
{
	static struct renewer renewer[THREADS];
	static struct fake_thread none;
	struct read_books read = {};
	struct made_books made;
	pthread_t thread[THREADS];

	fake_python_begin(&python, 13, &none, 1, 1, &made);
	begin_threads(thread, renew_objects, renewer, sizeof(*renewer));
	for (int i = 0; i < THREADS; i++)
		while (!__atomic_load_n(&renewer[i].tid, __ATOMIC_ACQUIRE))
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	for (int cut = 1; cut <= CUTS; cut++) {
		int err = cut_and_read(&made, cut, false, &read);

		cr_assert(!err || err == -EAGAIN, "%d", err);
		for (int i = 0; i < THREADS && !err; i++)
			check_renewed(&renewer[i], &read);
	}
	end_threads(thread);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}

/* Epochs are merged while the threads run. */
Test(exact_threads, have_all_blocks_when_epochs_were_merged, .timeout = 600)
{
	static struct keeper keeper[THREADS] = { { SMALL }, { LARGE }, { MOVED }, { MIXED } };
	static struct fake_thread none;
	struct read_books read = {};
	struct made_books made;
	pthread_t thread[THREADS];
	uint64_t now_ns = 1;

	fake_python_begin(&python, 11, &none, 1, 1, &made);
	begin_threads(thread, keep_blocks, keeper, sizeof(*keeper));
	wait_for_keepers(keeper);
	for (int cut = 0; cut < 12; cut++) {
		int err = 0;

		while (!err && cut % 3 == 0)
			err = books_tick(made.books, ++now_ns);
		err = cut_and_read(&made, ++now_ns, false, &read);
		cr_assert(!err || err == -EAGAIN, "%d", err);
		for (int i = 0; i < THREADS && !err; i++)
			check_moment(&keeper[i], &read, cut);
	}
	end_threads(thread);
	cr_assert_eq(cut_and_read(&made, ++now_ns, false, &read), 0);
	cr_expect_eq(read.block_nr, 0, "%zu blocks stay", read.block_nr);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}

/* ---- signal handlers ---- */

#define HANDLER_BLOCKS 8
#define HANDLER_STEP 64

static char handler_memory[HANDLER_BLOCKS * HANDLER_STEP] __attribute__((aligned(16)));
static uint32_t handler_nr, handled_nr;

/* Allocators that a handler may call at any time. */
static void *handler_malloc(void *ctx, size_t size)
{
	(void)ctx, (void)size;
	return handler_memory + HANDLER_STEP * (handler_nr++ % HANDLER_BLOCKS);
}

static void handler_free(void *ctx, void *block)
{
	(void)ctx, (void)block;
}

static void allocate_in_handler(int signal)
{
	void *block[HANDLER_BLOCKS];

	(void)signal;
	for (int i = 0; i < HANDLER_BLOCKS; i++)
		block[i] = hook_mem_malloc(NULL, 40);
	for (int i = 0; i < HANDLER_BLOCKS; i++)
		hook_mem_free(NULL, block[i]);
	handled_nr++;
}

static void handle_with(void (*handler)(int), int signal, bool is_on_other_stack)
{
	static char stack[1 << 16];
	struct sigaction action = { .sa_handler = handler, .sa_flags = is_on_other_stack ? SA_ONSTACK : 0 };

	cr_assert_eq(sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof(stack) }, NULL), 0);
	cr_assert_eq(sigaction(signal, &action, NULL), 0);
}

static void work_below_signals(bool is_on_other_stack)
{
	static struct fake_thread thread;
	const struct itimerspec often = { { .tv_nsec = 50000 }, { .tv_nsec = 50000 } };
	struct made_books made;
	timer_t timer;

	fake_python_begin(&python, 11, &thread, 1, 3, &made);
	be_fake_thread(&thread);
	python_hooks.old[PYTHON_MEM][PYTHON_MALLOC] = (uint64_t)handler_malloc;
	python_hooks.old[PYTHON_MEM][PYTHON_FREE] = (uint64_t)handler_free;
	handle_with(allocate_in_handler, SIGUSR1, is_on_other_stack);
	cr_assert_eq(timer_create(CLOCK_MONOTONIC, &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 }, &timer), 0);
	timer_settime(timer, 0, &often, NULL);
	handled_nr = 0;
	for (int i = 0; handled_nr < 2000 || i < 200000; i++)
		fake_raw_step(&thread);
	timer_delete(timer);
	check_ledgers(&python, &made, "below signals");
	fake_python_end(&python);
	release_made_books(&made);
}

Test(exact_threads, keep_their_books_below_signal_handlers, .timeout = 600)
{
	work_below_signals(false);
	work_below_signals(true);
}

static sigjmp_buf before_hook;

static void jump_out(int signal)
{
	(void)signal;
	siglongjmp(before_hook, 1);
}

static void *malloc_with_signal(void *ctx, size_t size)
{
	(void)ctx, (void)size;
	raise(SIGUSR2);
	return NULL;
}

Test(exact_threads, go_on_after_a_jump_out_of_a_hook)
{
	static struct fake_thread thread;
	struct read_books read = {};
	struct made_books made;
	uint64_t malloc_was;
	void *volatile block = NULL;

	fake_python_begin(&python, 11, &thread, 1, 5, &made);
	be_fake_thread(&thread);
	malloc_was = python_hooks.old[PYTHON_RAW][PYTHON_MALLOC];
	handle_with(jump_out, SIGUSR2, true);
	python_hooks.old[PYTHON_RAW][PYTHON_MALLOC] = (uint64_t)malloc_with_signal;
	if (!sigsetjmp(before_hook, 1))
		block = hook_raw_malloc(NULL, 100);
	cr_assert_null(block);
	python_hooks.old[PYTHON_RAW][PYTHON_MALLOC] = malloc_was;
	block = hook_raw_malloc(NULL, 100);
	cr_assert_eq(cut_and_read(&made, 2, false, &read), 0);
	cr_assert_eq(read.block_nr, 1);
	cr_expect_eq(read.block[0].address, (uint64_t)block);
	hook_raw_free(NULL, block);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}

/* ---- interpreters that end ---- */

Test(exact_threads, have_no_frames_of_an_interpreter_that_has_ended)
{
	static struct fake_thread thread;
	struct made_books made;
	uint64_t state;

	fake_python_begin(&python, 11, &thread, 1, 7, &made);
	be_fake_thread(&thread);
	python_hooks.key_sequence = 7;
	fake_key(true, 7, 0);
	state = own_state_of_hooks();
	cr_assert_eq(state, (uint64_t)thread.state);
	fake_key(true, 7, 0x1234);
	cr_expect_eq(own_state_of_hooks(), 0, "another thread ends it, and has freed this one's state");
	fake_key(true, 7, state);
	cr_expect_eq(own_state_of_hooks(), state, "this thread ends it");
	fake_key(false, 7, 0);
	cr_expect_eq(own_state_of_hooks(), 0);
	fake_key(true, 7, 0);
	cr_expect_eq(own_state_of_hooks(), 0, "a state of before, while the next interpreter begins");
	fake_key(true, 9, 0);
	cr_expect_eq(own_state_of_hooks(), state);
	fake_key(true, 7, 0);
	cr_expect_eq(own_state_of_hooks(), 0);
	fake_key(true, 0, 0);
	fake_python_end(&python);
	release_made_books(&made);
}

/* ---- calls within calls ---- */

static void *trace;

/* As tracemalloc in front of pymalloc: the table of the raw domain has the block, then its own block about it is freed. */
static void free_with_trace(void *ctx, void *block)
{
	hook_raw_free(ctx, block);
	hook_raw_free(ctx, trace);
}

Test(exact_threads, see_frees_that_a_free_makes)
{
	static struct fake_thread none;
	struct read_books read = {};
	struct books_numbers numbers;
	struct made_books made;
	void *block;

	fake_python_begin(&python, 11, &none, 1, 5, &made);
	python_hooks.old[PYTHON_OBJECT][PYTHON_FREE] = (uint64_t)free_with_trace;
	trace = hook_raw_malloc(NULL, 16);
	block = hook_object_malloc(NULL, 700);
	cr_assert_eq(cut_and_read(&made, 2, false, &read), 0);
	cr_expect_eq(read.block_nr, 2);
	hook_object_free(NULL, block);
	cr_assert_eq(cut_and_read(&made, 3, false, &read), 0);
	cr_expect_eq(read.block_nr, 0);
	books_read_numbers(made.books, &numbers);
	cr_expect(numbers.allocations == 2 && numbers.frees == 2 && numbers.unknown_frees == 0, "%lu, %lu, %lu", numbers.allocations,
		  numbers.frees, numbers.unknown_frees);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}

/* ---- a thread that stays in a hook ---- */

static bool may_go_on, is_waiting;

static void *malloc_that_waits(void *ctx, size_t size)
{
	(void)ctx;
	__atomic_store_n(&is_waiting, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&may_go_on, __ATOMIC_ACQUIRE))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return malloc(size);
}

static void *allocate_slowly(void *unused)
{
	(void)unused;
	return hook_mem_malloc(NULL, 700);
}

Test(exact_threads, are_waited_for_and_not_for_ever)
{
	static struct fake_thread none;
	struct read_books read = {};
	struct books_numbers numbers;
	struct made_books made;
	pthread_t thread;
	void *block;

	fake_python_begin(&python, 11, &none, 1, 5, &made);
	python_hooks.old[PYTHON_MEM][PYTHON_MALLOC] = (uint64_t)malloc_that_waits;
	cr_assert_eq(pthread_create(&thread, NULL, allocate_slowly, NULL), 0);
	while (!__atomic_load_n(&is_waiting, __ATOMIC_ACQUIRE))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	cr_expect_eq(books_cut(made.books, 2, false), -EAGAIN);
	cr_expect_eq(cut_and_read(&made, 3, true, &read), 0, "no thread is waited for in a process that has ended");
	cr_expect_eq(cut_and_read(&made, 4, false, &read), -EAGAIN);
	books_read_numbers(made.books, &numbers);
	cr_expect_eq(numbers.late_nr, 2);
	__atomic_store_n(&may_go_on, true, __ATOMIC_RELEASE);
	pthread_join(thread, &block);
	cr_expect_eq(cut_and_read(&made, 5, false, &read), 0);
	cr_assert_eq(read.block_nr, 1);
	cr_expect_eq(read.block[0].address, (uint64_t)block);
	cr_expect_eq(read.block[0].birth_ns, 1, "it began in the first epoch");
	free(block);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}

/* ---- a free that began in one snapshot, and ends in the next one ---- */

struct late_free {
	void *block;
	struct made_books *made;
	bool has_begun;
};

static void *free_late(void *late_)
{
	struct late_free *late = late_;
	uint64_t now;

	begin_late_free();
	now = __atomic_load_n(&MADE_HEAD(late->made)->now, __ATOMIC_ACQUIRE);
	__atomic_store_n(&late->has_begun, true, __ATOMIC_RELEASE);
	while (__atomic_load_n(&MADE_HEAD(late->made)->now, __ATOMIC_ACQUIRE) >> 32 <= now >> 32)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	end_late_free(late->block);
	return NULL;
}

Test(exact_threads, hand_blocks_over_to_their_own_snapshot)
{
	static struct fake_thread none;
	struct read_books read = {};
	struct made_books made;
	struct late_free late = { .made = &made };
	pthread_t thread;

	fake_python_begin(&python, 11, &none, 1, 5, &made);
	late.block = hook_raw_malloc(NULL, 100);
	cr_assert_eq(books_cut(made.books, 2, false), 0);
	cr_assert_eq(pthread_create(&thread, NULL, free_late, &late), 0);
	while (!__atomic_load_n(&late.has_begun, __ATOMIC_ACQUIRE))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	cr_expect_eq(books_read_blocks(made.books, NULL, NULL), -EAGAIN);
	cr_expect_eq(cut_and_read(&made, 3, false, &read), 0);
	cr_expect_eq(read.block_nr, 0, "it had begun to be freed before");
	pthread_join(thread, NULL);
	fake_python_end(&python);
	release_read_books(&read);
	release_made_books(&made);
}
