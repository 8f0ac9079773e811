// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * usdt_pool: an allocator that reports its blocks by USDT probes of sys/sdt.h, with semaphores, as PyTorch's caching
 * allocators do: pool:malloc(block, device, bytes, stream) when a block was given out, pool:free(block) before it is
 * taken back. Its functions are inlined, so no probe could sit on them. The blocks are numbers, and no memory.
 *
 *	go N     each of four threads takes N blocks at each of three places
 *	free     gives back each second of all blocks, from another thread's place
 *	quit
 *
 * Each answer has the blocks and bytes of each place, and the state of the semaphores.
 */
#include <pthread.h>
#include <stdint.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "workload.h"

#define THREADS 4
#define PLACES 3
#define EACH_MAX 1000

#define SEMAPHORE __attribute__((section(".probes")))

SEMAPHORE unsigned short pool_malloc_semaphore, pool_free_semaphore;

static struct block {
	uint64_t at;
	uint32_t bytes;
} blocks[THREADS][PLACES][EACH_MAX];

static uint64_t last_block = 0x7000000000; /* device memory: no address of the process */
static long each;

__attribute__((always_inline)) static inline struct block take(uint32_t bytes, int device)
{
	struct block block = { __atomic_add_fetch(&last_block, 512, __ATOMIC_RELAXED), bytes };

	if (__builtin_expect(pool_malloc_semaphore, 0))
		STAP_PROBE4(pool, malloc, block.at, device, block.bytes, NULL);
	return block;
}

__attribute__((always_inline)) static inline void give_back(struct block *block)
{
	if (__builtin_expect(pool_free_semaphore, 0))
		STAP_PROBE1(pool, free, block->at);
	block->at = 0;
}

/* ---- users ---- */

SITE static void take_tensor(struct block *ret, long i)
{
	*ret = take(100 + i % 7, 0);
}

SITE static void take_gradient(struct block *ret, long i)
{
	*ret = take(3000 + i, 1);
}

SITE static void take_workspace(struct block *ret, long i)
{
	*ret = take(i % 2 ? 0xfffff000u : 16, 0); /* sizes whose sign bit is set, too */
}

static void *work(void *thread)
{
	struct block(*own)[EACH_MAX] = blocks[(long)thread];

	for (long i = 0; i < each; i++) {
		take_tensor(&own[0][i], i);
		take_gradient(&own[1][i], i);
		take_workspace(&own[2][i], i);
	}
	return NULL;
}

static void *free_half(void *thread)
{
	struct block(*other)[EACH_MAX] = blocks[((long)thread + 1) % THREADS];

	for (int place = 0; place < PLACES; place++)
		for (long i = 0; i < each; i += 2)
			if (other[place][i].at)
				give_back(&other[place][i]);
	return NULL;
}

/* ---- orders ---- */

static void in_threads(void *(*function)(void *thread))
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, function, (void *)i))
			_exit(1);
	for (long i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void report(void)
{
	static const char *const names[PLACES] = { "take_tensor", "take_gradient", "take_workspace" };
	long count[PLACES] = {}, bytes[PLACES] = {};

	for (int thread = 0; thread < THREADS; thread++)
		for (int place = 0; place < PLACES; place++)
			for (long i = 0; i < EACH_MAX; i++) {
				count[place] += blocks[thread][place][i].at != 0;
				bytes[place] += blocks[thread][place][i].at ? blocks[thread][place][i].bytes : 0;
			}
	answer("{\"done\": {\"%s\": [%ld, %ld], \"%s\": [%ld, %ld], \"%s\": [%ld, %ld], \"semaphores\": [%d, %d]}}",
	       names[0], count[0], bytes[0], names[1], count[1], bytes[1], names[2], count[2], bytes[2],
	       pool_malloc_semaphore, pool_free_semaphore);
}

int main(void)
{
	ready();
	for (const char *command = next_command(); strcmp(command, "quit"); command = next_command()) {
		if (!strncmp(command, "go ", 3)) {
			each = atol(command + 3);
			in_threads(work);
		} else if (!strcmp(command, "free")) {
			in_threads(free_half);
		}
		report();
	}
	return 0;
}
