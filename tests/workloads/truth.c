// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Blocks in all ways, with a ledger, for recordings of samples that the process takes itself (liballocsnap-sampler.so).
 * More threads than processors allocate, resize and free their own and each other's blocks; some reallocs fail.
 *
 *	go SEED OPS   adds that many operations; {"done": {"count", "bytes", "variance"}} of the blocks that are live then:
 *	              variance of an estimate of the bytes by samples of the interval in ALLOCSNAP_SAMPLE
 *	change SEED OPS   the same while the threads change the interval
 *	free          frees all blocks
 *	info          {"done": {"interval", "chosen", "most", "changes", "samples", "flags"}}, by the sampler; {} without it
 *	exec PATH     the process runs another program
 *	quit
 *
 * The functions way_… make all blocks that the ledger has; the ones of a failed realloc are way_failed()'s from then on.
 */
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../../src/sampler/sampler_info.h"
#include "workload.h"

#define THREADS 8
#define STACK_BYTES (256 << 10) /* the C library keeps stacks of ended threads, up to 40 MiB of them */
#define SLOTS 2048

__attribute__((weak)) extern struct sampler_info allocsnap_sampler;

/* A thread has a slot while it holds `is_busy`. */
static struct slot {
	atomic_flag is_busy;
	char *block;
	size_t size;
} slots[SLOTS];

struct work {
	pthread_t thread;
	uint64_t random;
	long ops;
	int changes;
};

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

/* As in splitmix64; never 0. */
static uint64_t mix(uint64_t x)
{
	x = (x + 1) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) | 1;
}

/* ---- ways: none of them may be a tail call ---- */

#define WAY(name, call)                                                                                       \
	SITE static void *way_##name(size_t n)                                                                \
	{                                                                                                     \
		void *volatile block = call;                                                                  \
		return block;                                                                                 \
	}

static void *align_posix(size_t alignment, size_t n)
{
	void *block = NULL;

	return posix_memalign(&block, alignment, n) ? NULL : block;
}

WAY(malloc, malloc(n))
WAY(calloc, n % 4 ? calloc(1, n) : calloc(n / 4, 4))
WAY(realloc, realloc(NULL, n))
WAY(reallocarray, reallocarray(NULL, n, 1))
WAY(memalign, memalign(64, n))
WAY(aligned, aligned_alloc(16, n))
WAY(posix, align_posix(sizeof(void *), n))
WAY(posix_page, align_posix(4096, n))
WAY(valloc, valloc(n))

static void *(*const ways[])(size_t) = { way_malloc, way_calloc, way_realloc, way_reallocarray, way_memalign,
					 way_aligned, way_posix, way_posix_page, way_valloc };
#define WAYS (sizeof(ways) / sizeof(*ways))

SITE static void way_resized(struct slot *slot, size_t n)
{
	void *volatile block = realloc(slot->block, n);

	if (!block)
		abort();
	slot->block = block;
	slot->size = n;
}

/* The sampler reports a block again if its realloc has failed. */
SITE static void way_failed(struct slot *slot)
{
	void *volatile block = realloc(slot->block, PTRDIFF_MAX - 4096);

	if (block)
		abort();
}

/* ---- threads ---- */

static size_t pick_size(uint64_t random)
{
	if (random % 64 == 0)
		return 1 + (random >> 8) % 200000;
	return 1 + (random >> 8) % (random % 8 ? 600 : 6000);
}

static void change_interval(uint64_t random)
{
	if (&allocsnap_sampler)
		__atomic_store_n(&allocsnap_sampler.interval, allocsnap_sampler.interval_chosen << (random & 2),
				 __ATOMIC_RELAXED);
}

static void do_one(struct slot *slot, uint64_t random)
{
	size_t size = pick_size(random >> 12);

	switch (random >> 60) {
	case 0:
		free(slot->block);
		slot->block = NULL;
		break;
	case 1:
	case 2:
	case 3:
		way_resized(slot, size);
		break;
	case 4:
		way_failed(slot);
		break;
	default:
		free(slot->block);
		slot->block = ways[(random >> 32) % WAYS](size);
		slot->size = size;
	}
	if (slot->block)
		*slot->block = 1;
}

/*
 * Waits. If the thread went on with another slot instead, blocks would live longer whose threads take longer to allocate
 * them, and those are the samples: estimates would be too high.
 */
static void hold_slot(struct slot *slot)
{
	while (atomic_flag_test_and_set(&slot->is_busy))
		sched_yield();
}

static void *run_thread(void *work_)
{
	struct work *work = work_;

	for (long i = 0; i < work->ops; i++) {
		uint64_t random = next_random(&work->random);
		struct slot *slot = &slots[random % SLOTS];

		hold_slot(slot);
		if (work->changes && (random >> 44 & 63) == 0)
			change_interval(random >> 40);
		do_one(slot, random);
		atomic_flag_clear(&slot->is_busy);
	}
	return NULL;
}

/* ---- commands ---- */

static void tell_live(void)
{
	double interval = atof(getenv("ALLOCSNAP_SAMPLE") ?: "524288"), bytes = 0, variance = 0;
	long count = 0;

	for (int i = 0; i < SLOTS; i++) {
		double size = slots[i].size;

		if (!slots[i].block)
			continue;
		count++;
		bytes += size;
		variance += size * (size / -expm1(-size / interval) - size);
	}
	answer("{\"done\": {\"count\": %ld, \"bytes\": %.0f, \"variance\": %.0f}}", count, bytes, variance);
}

static pthread_attr_t small_stack;

static void run_threads(void *(*function)(void *), struct work work[THREADS])
{
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&work[i].thread, &small_stack, function, &work[i]))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(work[i].thread, NULL);
}

static pthread_barrier_t all_are_there;

static void *meet(void *unused)
{
	pthread_barrier_wait(&all_are_there);
	return unused;
}

/* The C library keeps the memory that it has allocated for threads, for later threads: the ledger does not have it. */
static void allocate_for_threads(void)
{
	struct work work[THREADS];

	if (pthread_attr_init(&small_stack) || pthread_attr_setstacksize(&small_stack, STACK_BYTES) ||
	    pthread_barrier_init(&all_are_there, NULL, THREADS))
		abort();
	run_threads(meet, work);
}

static void go(const char *arguments, int changes)
{
	struct work work[THREADS];
	char *end;
	uint64_t seed = strtoull(arguments, &end, 10);
	long ops = strtol(end, NULL, 10);

	for (int i = 0; i < THREADS; i++)
		work[i] = (struct work){ .random = mix(seed * THREADS + i), .ops = ops / THREADS, .changes = changes };
	run_threads(run_thread, work);
	tell_live();
}

static void free_all(void)
{
	for (int i = 0; i < SLOTS; i++) {
		free(slots[i].block);
		slots[i].block = NULL;
	}
	answer("{\"done\": {}}");
}

static void tell_info(void)
{
	const struct sampler_info *info = &allocsnap_sampler;

	if (!info) {
		answer("{\"done\": {}}");
		return;
	}
	answer("{\"done\": {\"interval\": %llu, \"chosen\": %llu, \"most\": %llu, \"changes\": %llu, \"samples\": %llu, "
	       "\"flags\": %u}}",
	       (unsigned long long)info->interval, (unsigned long long)info->interval_chosen,
	       (unsigned long long)info->interval_most, (unsigned long long)info->interval_changes,
	       (unsigned long long)info->samples, info->flags);
}

int main(void)
{
	const char *command;

	allocate_for_threads();
	ready();
	while (strcmp(command = next_command(), "quit")) {
		if (!strncmp(command, "go ", 3))
			go(command + 3, 0);
		else if (!strncmp(command, "change ", 7))
			go(command + 7, 1);
		else if (!strcmp(command, "free"))
			free_all();
		else if (!strcmp(command, "info"))
			tell_info();
		else
			end_at_once(command);
	}
	return 0;
}
