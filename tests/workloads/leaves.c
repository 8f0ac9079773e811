// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program with an allocator of its own, whose calls are left without returning, or interrupted by
 * a signal handler that allocates on the same stack. It counts as allocsnap should: a call inside
 * another one counts with the outer one, and a call that does not return makes no block.
 *
 *	jump N		N calls left by longjmp
 *	exit N		N threads that end inside a realloc; its old block stays
 *	pthread_exit N	N threads that end inside a malloc, whose stacks are unwound
 *	handler N	N calls with a handler in them
 *	quit
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "workload.h"

#define ARENA_BYTES (256UL << 20)

/* No memory is used twice. */
struct header {
	_Alignas(16) size_t size; /* 0: not counted */
	char block[];
};

static _Alignas(16) char arena[ARENA_BYTES];
static _Atomic(size_t) used;
static _Atomic(long) allocations, frees, unknown_frees, live_nr, live_bytes, left;
static _Atomic(pid_t) ending; /* the thread */

static __thread unsigned int pending; /* calls under way */
static __thread void (*inside)(void); /* what happens in the middle of the next call */

static struct header *begin(size_t size)
{
	size_t place = atomic_fetch_add(&used, sizeof(struct header) + (size + 15) / 16 * 16);
	void (*now)(void) = inside;

	if (place + size + sizeof(struct header) > ARENA_BYTES)
		abort();
	pending++;
	inside = NULL;
	if (now)
		now();
	return (struct header *)&arena[place];
}

static void *end(struct header *header, size_t size)
{
	if (!--pending) {
		header->size = size;
		allocations++;
		live_nr++;
		live_bytes += size;
	}
	return header->block;
}

static void forget(struct header *header)
{
	if (header->size) {
		frees++;
		live_nr--;
		live_bytes -= header->size;
	} else {
		unknown_frees++;
	}
	header->size = 0;
}

static struct header *header_of(void *block)
{
	return (struct header *)((char *)block - offsetof(struct header, block));
}

SITE void *malloc(size_t size)
{
	return end(begin(size), size ?: 1);
}

SITE void *calloc(size_t n, size_t size)
{
	return end(begin(n * size), n * size ?: 1);
}

SITE void free(void *block)
{
	if (block && !pending)
		forget(header_of(block));
}

/* As in C23. */
SITE void free_sized(void *block, size_t)
{
	if (block && !pending)
		forget(header_of(block));
}

SITE void free_aligned_sized(void *block, size_t, size_t)
{
	if (block && !pending)
		forget(header_of(block));
}

SITE void *realloc(void *old, size_t size)
{
	struct header *header = begin(size);

	if (old)
		memcpy(header->block, old, size < 40 ? size : 40); /* all are as large as that */
	if (old && pending == 1)
		forget(header_of(old));
	return end(header, size ?: 1);
}

/* ---- calls that are left ---- */

static jmp_buf out;
static void *kept;
static void *(*volatile call_malloc)(size_t) = malloc; /* or the compiler knows the result */

static void replace_kept(void)
{
	static unsigned int round;
	void *old = kept;

	kept = call_malloc(56);
	if (++round % 3 == 0)
		free(old);
	else if (round % 3 == 1)
		free_sized(old, 56);
	else
		free_aligned_sized(old, 16, 56);
}

static void jump_out(void)
{
	left++;
	longjmp(out, 1);
}

SITE static void be_left(bool zeroed)
{
	inside = jump_out;
	kept = zeroed ? calloc(5, 8) : call_malloc(40);
}

static void jumps(long nr)
{
	for (volatile long i = 0; i < nr; i++) {
		if (!setjmp(out))
			be_left(i % 2);
		pending = 0;
		replace_kept();
	}
}

static void exit_at_once(void)
{
	left++;
	syscall(SYS_exit, 0);
}

static void unwind(void)
{
	left++;
	pthread_exit(NULL);
}

static void *end_in_realloc(void *block)
{
	ending = gettid();
	inside = exit_at_once;
	return realloc(block, 80);
}

static void *end_in_malloc(void *block)
{
	ending = gettid();
	inside = unwind;
	return block ?: call_malloc(40);
}

/* Older kernels wake who joins a thread before they say that it has ended (seen on 6.1, docs/limits.md). */
static void threads(long nr, void *(*run)(void *), size_t block_size)
{
	for (long i = 0; i < nr; i++) {
		void *block = block_size ? call_malloc(block_size) : NULL;
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, block) || pthread_join(thread, NULL))
			_exit(1);
		while (!syscall(SYS_tgkill, getpid(), ending, 0))
			sched_yield();
		if (i % 2)
			free(block);
	}
}

/* ---- a handler on the same stack ---- */

static void on_signal(int)
{
	void *block = call_malloc(24);

	free(block);
}

static void raise_signal(void)
{
	raise(SIGUSR1);
}

static void handlers(long nr)
{
	signal(SIGUSR1, on_signal);
	for (long i = 0; i < nr; i++) {
		inside = raise_signal;
		replace_kept();
	}
}

static void obey(const char *name, long nr)
{
	if (!strcmp(name, "jump"))
		jumps(nr);
	if (!strcmp(name, "exit"))
		threads(nr, end_in_realloc, 40);
	if (!strcmp(name, "pthread_exit"))
		threads(nr, end_in_malloc, 0);
	if (!strcmp(name, "handler"))
		handlers(nr);
}

static void *exit_outside(void *arg)
{
	pthread_exit(arg);
}

int main(void)
{
	threads(1, exit_outside, 0); /* loads what unwinds */
	ready();
	for (;;) {
		char name[32];
		long nr;

		if (sscanf(next_command(), "%31s %ld", name, &nr) < 2)
			return 0;
		obey(name, nr);
		answer("{\"done\": {\"count\": %ld, \"size\": %ld, \"allocations\": %ld, "
		       "\"frees\": %ld, \"unknown_frees\": %ld, \"left\": %ld}}", live_nr, live_bytes,
		       allocations, frees, unknown_frees, left);
	}
}
