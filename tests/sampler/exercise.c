// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * exercise MODE: a program below the preloaded library that checks what the library reports (trap.h, ledger_ops.h). The
 * modes are the rows of `modes`. Exit status 0: all checks hold; 1: a line on stderr for each that does not.
 */
#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger_ops.h"
#include "trap.h"

/* A stream of numbers, by the state at *x, which is not 0. */
static uint64_t xorshift(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

/* ---- estimates ---- */

/*
 * Recordings with known answers: in each round new threads allocate in all ways, and free and resize their own and each
 * other's blocks; at its end the estimate of what is live stands beside the truth, and all is freed.
 */

#define SLOTS 2048
#define OPS 4096 /* of all threads in a round */
#define THREADS_MAX 64

/* A thread has a slot while it holds `is_busy`. */
static struct slot {
	atomic_flag is_busy;
	struct block block;
} slots[SLOTS];

struct work {
	pthread_t thread;
	uint64_t random;
	int ops;
	bool changes_interval;
};

/* A signal handler frees blocks and allocates others, between two calls of its thread. */
static __thread struct block of_handler;

static void on_signal(int)
{
	struct events kept = seen;

	block_free(&of_handler);
	of_handler = block_allocate(WAY_MALLOC, 777);
	seen = kept;
}

static size_t pick_size(uint64_t random)
{
	if (random % 64 == 0)
		return 1 + (random >> 8) % 200000;
	return 1 + (random >> 8) % (random % 8 ? 600 : 6000);
}

/*
 * Waits. If the thread went on with another slot instead, blocks would live longer whose threads take longer to allocate
 * them, and those are the samples: estimates would be too high.
 */
static void wait_for_slot(struct slot *slot)
{
	while (atomic_flag_test_and_set(&slot->is_busy))
		sched_yield();
}

static void *run_thread(void *argument)
{
	struct work *work = argument;

	for (int i = 0; i < work->ops; i++) {
		uint64_t random = xorshift(&work->random);
		struct slot *slot = &slots[random % SLOTS];
		size_t size = pick_size(random >> 12);

		wait_for_slot(slot);
		if (work->changes_interval && random >> 58 == 0)
			__atomic_store_n(&trap_info->interval, intervals[random >> 40 & 1], __ATOMIC_RELAXED);
		switch (random >> 60) {
		case 0:
			block_free(&slot->block);
			break;
		case 1:
		case 2:
		case 3:
			block_resize(&slot->block, size);
			break;
		case 4:
			block_resize(&slot->block, PTRDIFF_MAX - 4096);
			break;
		default:
			block_free(&slot->block);
			slot->block = block_allocate((random >> 32) % WAY_NR, size);
		}
		atomic_flag_clear(&slot->is_busy);
		if (random >> 52 & 1)
			raise(SIGUSR1);
	}
	block_free(&of_handler);
	return NULL;
}

struct outcome {
	double truth, truth_variance, estimate, variance;
	long samples;
};

/* The errors of the estimate: as it is by the blocks that are there, and as it seems by the samples. */
static struct outcome add_up(uint64_t interval)
{
	struct outcome sum = {};

	for (int i = 0; i < SLOTS; i++) {
		struct block *block = &slots[i].block;
		double size = block->size;

		if (block->address && size) {
			sum.truth += size;
			sum.truth_variance += size * (weight_of(size, interval) - size);
		}
		if (block->weight) {
			sum.estimate += block->weight;
			sum.variance += block->weight * (block->weight - size);
			sum.samples++;
		}
		block_free(block);
	}
	return sum;
}

static struct outcome run_round(int threads, uint64_t *random, bool changes_interval)
{
	struct work work[THREADS_MAX];

	for (int i = 0; i < threads; i++) {
		work[i] = (struct work){ .random = xorshift(random), .ops = OPS / threads, .changes_interval = changes_interval };
		check(!pthread_create(&work[i].thread, NULL, run_thread, &work[i]), "no thread");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(work[i].thread, NULL);
	return add_up(intervals[0]);
}

static void run_rounds(int rounds, int threads, int changes_interval)
{
	uint64_t random = UINT64_C(0x2545f4914f6cdd1d);
	double z_sum = 0, z_squares = 0, errors = 0, error_squares = 0, bias;
	long covered = 0, samples = 0, dropped = trap_info->dropped;

	if (changes_interval)
		intervals[1] = intervals[0] * 4;
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < rounds; i++) {
		struct outcome sum = run_round(threads, &random, changes_interval);
		double error = sum.estimate - sum.truth, z = error / sqrt(changes_interval ? sum.variance : sum.truth_variance);

		z_sum += z;
		z_squares += z * z;
		errors += error;
		error_squares += error * error;
		covered += fabs(error) <= 1.96 * sqrt(sum.variance);
		samples += sum.samples;
	}
	check(samples > rounds * 20, "only %ld samples are live in %d rounds", samples, rounds);
	check(dropped == (long)trap_info->dropped, "samples were dropped");
	/* A round has mean 0 and variance 1. Limits that chance passes less than once in 100,000 times, also with 20 rounds. */
	bias = z_sum / sqrt(rounds);
	/* While the interval changes, the only variance is that by the samples. It is small where the estimate is small, so
	 * the mean z is below 0 (-0.14) though the mean error is 0: errors are judged by their own spread there.
	 */
	if (changes_interval)
		bias = errors / sqrt(error_squares);
	check(fabs(bias) < 5, "biased: the mean error is %+.0f", errors / rounds);
	if (!changes_interval)
		check(fabs(z_squares - rounds) / sqrt(2 * rounds) < 6, "the mean of z^2 is %.3f", z_squares / rounds);
	check(fabs(covered - .95 * rounds) < 6 * sqrt(.95 * .05 * rounds) + 3, "%ld of %d intervals hold the truth", covered, rounds);
	printf("%d rounds of %d threads: bias %+.2f, mean z^2 %.3f, %.1f %% of intervals hold the truth, %.0f samples\n",
	       rounds, threads, bias, z_squares / rounds, 100. * covered / rounds, (double)samples / rounds);
}

/* ---- functions: with an interval of 1 each block of 64 bytes or more is a sample ---- */

static void check_told(const struct block *block, int is_wanted, const char *what)
{
	check((block->weight != 0) == is_wanted, "%s: %zu bytes at %p are %stold", what, block->size, block->address,
	      is_wanted ? "not " : "");
}

static void check_resizes(enum way way)
{
	static const size_t sizes[] = { 100, 40, 5000, 4900, 300000, 1000000, 600000, 64, 64 };
	struct block block = block_allocate(way, 200);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		block_resize(&block, sizes[i]);
		check_told(&block, 1, "realloc");
		block_resize(&block, PTRDIFF_MAX - 4096);
		check_told(&block, 1, "realloc that fails");
	}
	block_resize(&block, 0);
	check_told(&block, 0, "realloc to 0");
	block_free(&block);
}

static void check_failures_are_not_told(void)
{
	void *untouched = &untouched, *block = untouched;

	seen.nr = 0;
	check(!malloc(PTRDIFF_MAX), "a huge malloc");
	check(!calloc(SIZE_MAX / 2, 4), "a calloc that overflows");
	check(!calloc(SIZE_MAX / 4, 2), "a huge calloc");
	errno = 0;
	check(!reallocarray(NULL, SIZE_MAX / 2, 4) && errno == ENOMEM, "a reallocarray that overflows");
	check(posix_memalign(&block, 3, 64) == EINVAL && block == untouched, "an alignment of 3");
	check(posix_memalign(&block, 64, PTRDIFF_MAX - 65536) == ENOMEM, "a huge posix_memalign");
	check(!memalign(64, PTRDIFF_MAX - 65536), "a huge memalign");
	free(NULL);
	check(!seen.nr, "%d events for calls that fail", seen.nr);
}

static void run_functions(void)
{
	for (int way = 0; way < WAY_NR; way++) {
		for (size_t size = 64; size < 3000000; size = size * 3 / 2 + 1) {
			struct block block = block_allocate(way, size);

			check_told(&block, 1, "allocation");
			check(malloc_usable_size(block.address) >= size, "malloc_usable_size");
			block_free(&block);
		}
		check_resizes(way);
		if (way != WAY_ALIGNED_ALLOC) { /* some allocators refuse 0 bytes there */
			struct block empty = block_allocate(way, 0);

			check_told(&empty, 0, "0 bytes");
			block_free(&empty);
		}
	}
	check_failures_are_not_told();
}

/* ---- signals: handlers at any instruction; needs an allocator that allows it (next_lockfree.c) ---- */

static atomic_bool is_over;
static atomic_long handled;

static void on_async_signal(int)
{
	struct events kept = seen;
	struct block block = block_allocate(WAY_MALLOC, 300);

	block_resize(&block, 900);
	block_free(&block);
	handled++;
	seen = kept;
}

static void *run_below_signals(void *random)
{
	struct block block[64] = {};
	uint64_t x = (uintptr_t)random;

	for (long i = 0; !is_over; i++) {
		struct block *one = &block[xorshift(&x) % 64];

		if (x >> 63)
			block_resize(one, 1 + x % 200);
		else
			block_free(one), *one = block_allocate((x >> 20) % WAY_NR, 1 + x % 200);
		if (i > 300000)
			usleep(i > 500000 ? 5000 : 20); /* next_lockfree.c never gives memory back */
	}
	for (int i = 0; i < 64; i++)
		block_free(&block[i]);
	return NULL;
}

static void run_signals(void)
{
	struct sigaction action = { .sa_handler = on_async_signal, .sa_flags = SA_RESTART };
	pthread_t thread[2];

	sigaction(SIGUSR1, &action, NULL);
	for (long i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, run_below_signals, (void *)(i + 99));
	for (int i = 0; i < 1000000 && handled < 5000; i++) {
		pthread_kill(thread[i % 2], SIGUSR1);
		if (i % 16 == 0)
			usleep(20);
	}
	is_over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	check(handled >= 5000, "only %ld signals", (long)handled);
	check(!trap_info->dropped, "samples were dropped");
}

/* ---- jumps: a handler leaves the call that it has interrupted; needs the same allocators ---- */

#define JUMPS 3000
#define JUMPS_MISS_MAX 20000

static sigjmp_buf way_back;

static void on_jump(int)
{
	siglongjmp(way_back, 1);
}

static void *interrupt_again_and_again(void *thread)
{
	while (!is_over) {
		pthread_kill(*(pthread_t *)thread, SIGUSR1);
		usleep(20);
	}
	return NULL;
}

/* Returns when a handler has jumped out of one of the calls. */
static void call_until_interrupted(const sigset_t *jumping, const sigset_t *mask)
{
	struct block block = {};

	if (!sigsetjmp(way_back, 1)) {
		pthread_sigmask(SIG_SETMASK, jumping, NULL);
		for (int i = 0;; i++) {
			block_free(&block);
			block = block_allocate(i % WAY_NR, 64 + i % 200);
			block_resize(&block, 300);
		}
	}
	pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* How many blocks the thread allocates until one is a sample; each one is, but for a while after a jump out of a call. */
static int count_to_next_sample(void)
{
	int nr = 0;

	for (double weight = 0; !weight && nr < JUMPS_MISS_MAX; nr++) {
		struct block block = block_allocate(WAY_MALLOC, 100);

		weight = block.weight;
		block_free(&block);
	}
	return nr;
}

static void run_jumps(void)
{
	pthread_t self = pthread_self(), other;
	sigset_t mask, jumping;
	int missed = 0;

	pthread_sigmask(SIG_SETMASK, NULL, &jumping);
	mask = jumping;
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	signal(SIGUSR1, on_jump);
	pthread_create(&other, NULL, interrupt_again_and_again, &self);
	for (int i = 0; i < JUMPS; i++) {
		int nr;

		call_until_interrupted(&jumping, &mask);
		nr = count_to_next_sample();
		check(nr < JUMPS_MISS_MAX, "no sample after a jump");
		missed += nr > 1;
	}
	check(missed < JUMPS / 4, "after %d of %d jumps the next block is no sample", missed, JUMPS);
	is_over = true;
	pthread_join(other, NULL);
}

/* ---- forks, while threads allocate ---- */

#define FORKS 300

/* How many blocks of 100 bytes a fresh process allocates until it has three samples. */
static int count_to_third_sample(void)
{
	int nr = 0;

	for (int samples = 0; samples < 3; nr++) {
		struct block block = block_allocate(WAY_MALLOC, 100);

		samples += block.weight != 0;
		block_free(&block);
	}
	return nr;
}

static void run_child(int pipe_fd)
{
	int nr = count_to_third_sample();
	struct block block = {};

	for (int i = 1; i < 200; i++)
		block_resize(&block, i * 37);
	block_free(&block);
	if (write(pipe_fd, &nr, sizeof(nr)) != sizeof(nr))
		_exit(3);
	_exit(check_failures ? 1 : 0);
}

static int compare_int(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void run_forks(void)
{
	int pipes[2], nr[FORKS], same = 0;
	pthread_t thread[2];

	check(!pipe(pipes), "no pipe");
	for (long i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, run_below_signals, (void *)(i + 99));
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();
		int status = -1;

		if (!pid)
			run_child(pipes[1]);
		waitpid(pid, &status, 0);
		check(!status, "child %d ends with status %x", i, status);
		check(status || read(pipes[0], &nr[i], sizeof(*nr)) == sizeof(*nr), "no answer");
	}
	is_over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	qsort(nr, FORKS, sizeof(*nr), compare_int);
	for (int i = 1; i < FORKS; i++)
		same += nr[i] == nr[i - 1];
	check(same < FORKS / 2, "%d of %d children draw the same distances", same, FORKS);
}

/* ---- others ---- */

/* A library that allocates in its constructor comes and goes; so does the sampler, which stays. */
static void run_dlopen(void)
{
	const char *plugin = getenv("PLUGIN");
	struct block block = block_allocate(WAY_MALLOC, 5000);

	for (int i = 0; i < 50; i++) {
		void *handle, *sampler;

		if (!getenv("INJECT")) { /* what is injected is no library */
			sampler = dlopen(trap_path, RTLD_NOW);
			check(sampler && !dlclose(sampler), "cannot open %s again", trap_path);
			check(dlerror() == NULL, "an error is left");
		}
		seen.nr = 0;
		handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
		check(handle != NULL, "cannot open the plugin");
		check(seen.nr > 0, "the plugin's blocks are not told");
		if (handle)
			dlclose(handle);
	}
	block_free(&block);
}

/* A child in strict mode may read, write and exit. Needs an allocator that makes no system calls. */
static void run_strict(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		if (prctl(PR_SET_SECCOMP, 1 /* strict */))
			_exit(4);
		for (int i = 0; i < 20000; i++) {
			struct block block = block_allocate(i % WAY_NR, 100);

			block_resize(&block, 1000);
			block_free(&block);
		}
		syscall(SYS_exit, check_failures ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	check(!status, "the child ends with status %x", status);
}

/* More samples than there is room for: the rest is counted, and nothing else goes wrong. */
static void run_full(void)
{
	enum { NR = 90000 };
	struct block *block = mmap(NULL, NR * sizeof(*block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long told = 0;

	for (int i = 0; i < NR; i++) {
		block[i] = block_allocate(WAY_MALLOC, 64);
		told += block[i].weight != 0;
	}
	check(told > 55000 && told <= 65536, "%ld of %d are told", told, NR);
	check(told == (long)trap_info->samples && NR - told == (long)trap_info->dropped, "samples %ld, dropped %ld",
	      (long)trap_info->samples, (long)trap_info->dropped);
	for (int i = 0; i < NR; i++)
		block_free(&block[i]);
	block[0] = block_allocate(WAY_MALLOC, 64);
	check_told(&block[0], 1, "after that");
	block_free(&block[0]);
}

static void run_idle(void)
{
	check(!trap_info->samples && !trap_info->dropped, "samples without a listener");
	check(trap_info->interval == intervals[0] && trap_info->interval_most == intervals[0], "the interval is %ld",
	      (long)trap_info->interval);
	printf("flags %u interval %lu\n", trap_info->flags, (unsigned long)trap_info->interval);
}

static void allocate_much(void)
{
	for (int i = 0; i < 1000; i++) {
		struct block block = block_allocate(WAY_MALLOC, 10000);

		block_free(&block);
	}
}

/* A recorder that was killed leaves its interval behind, and no listener. */
static void run_left(void)
{
	intervals[1] = intervals[0] * 16;
	trap_listen();
	allocate_much();
	__atomic_store_n(&trap_info->interval, intervals[1], __ATOMIC_RELAXED);
	allocate_much();
	check(trap_info->interval == intervals[1] && !trap_info->interval_changes, "the interval does not stay");
	trap_stop_listening();
	allocate_much();
	check(trap_info->interval == intervals[0] && trap_info->interval_chosen == intervals[0], "the interval is %ld",
	      (long)trap_info->interval);
	check(trap_info->interval_changes == 1, "%ld changes", (long)trap_info->interval_changes);
}

static void run_estimates_still(void)
{
	run_rounds(atoi(getenv("ROUNDS") ?: "200"), 4, 0);
}

static void run_estimates_changing(void)
{
	run_rounds(atoi(getenv("ROUNDS") ?: "200"), 4, 1);
}

static const struct mode {
	const char *name;
	void (*run)(void);
	int is_idle; /* no recorder is attached */
} modes[] = {
	{ "functions", run_functions },
	{ "signals", run_signals },
	{ "jumps", run_jumps },
	{ "forks", run_forks },
	{ "dlopen", run_dlopen },
	{ "strict", run_strict },
	{ "full", run_full },
	{ "estimates", run_estimates_still },
	{ "estimates-changing", run_estimates_changing },
	{ "idle", run_idle, 1 },
	{ "left", run_left, 1 },
	{},
};

int main(int argc, char **argv)
{
	const struct mode *mode = modes;

	while (mode->name && (argc != 2 || strcmp(argv[1], mode->name)))
		mode++;
	if (!mode->name)
		errx(2, "which mode?");
	trap_find_library();
	intervals[0] = strtoul(getenv("INTERVAL") ?: "524288", NULL, 10);
	if (!mode->is_idle) {
		check(trap_info->interval == intervals[0], "the interval is %ld", (long)trap_info->interval);
		trap_listen();
	}
	mode->run();
	if (!mode->is_idle)
		trap_stop_listening();
	printf("%s: %ld checks, %ld failed\n", mode->name, (long)checks, (long)check_failures);
	return check_failures != 0;
}
