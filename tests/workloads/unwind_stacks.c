// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stacks that end soon, or that cannot be read.
 *
 *	alone		one block of 301 bytes
 *	empty		exec without arguments and environment: the stack begins where memory ends
 *	at_guard	a block of 302 on a stack with a guard page right above
 *	paged_out	a block of 303 while the callers' page is not in memory, one of 304 when it is again
 *	threads		8 threads, each 3000 blocks of 310 + its number, at another depth; they are freed
 *	vfork		a block of 305 by a child that has only been vforked
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "unwind.h"

#define PAGE_BYTES 4096
#define STACK_BYTES (16 * PAGE_BYTES)
#define THREADS 8
#define ROUNDS 3000

static void alone(void)
{
	KEEP_BLOCK(301);
}

static void empty(void)
{
	char *none[] = { NULL };

	execve("/proc/self/exe", none, none);
	_exit(1);
}

/* ---- stacks of our own ---- */

static ucontext_t main_context, other_context;

static void run_on(char *stack, void (*run)(void))
{
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = STACK_BYTES;
	other_context.uc_link = &main_context;
	makecontext(&other_context, run, 0);
	swapcontext(&main_context, &other_context);
}

static char *map(size_t bytes, int flags)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	return memory;
}

static void below_guard(void)
{
	KEEP_BLOCK(302);
}

static void at_guard(void)
{
	char *stack = map(STACK_BYTES + PAGE_BYTES, MAP_PRIVATE);

	if (mprotect(stack + STACK_BYTES, PAGE_BYTES, PROT_NONE))
		_exit(1);
	run_on(stack, below_guard);
}

static char *shared_stack;

/* Shared memory keeps its contents while its pages are not mapped. */
SITE static void without_callers(void)
{
	char buf[2 * PAGE_BYTES];
	char *callers = (char *)(((uintptr_t)buf + sizeof(buf)) & -PAGE_BYTES);

	STAYS_BEHIND(buf);
	if (madvise(callers, shared_stack + STACK_BYTES - callers, MADV_DONTNEED))
		_exit(1);
	KEEP_BLOCK(303);
	for (; callers < shared_stack + STACK_BYTES; callers += PAGE_BYTES)
		*(volatile char *)callers;
	KEEP_BLOCK(304);
	STAYS_BEHIND(buf);
}

static void on_shared_stack(void)
{
	char buf[2 * PAGE_BYTES];

	STAYS_BEHIND(buf);
	without_callers();
	STAYS_BEHIND(buf);
}

static void paged_out(void)
{
	shared_stack = map(STACK_BYTES, MAP_SHARED);
	run_on(shared_stack, on_shared_stack);
}

/* ---- threads ---- */

SITE static long at_depth(long depth, size_t size)
{
	void *volatile block;

	if (depth)
		return at_depth(depth - 1, size) + 1;
	for (int i = 0; i < ROUNDS; i++) {
		block = malloc(size);
		free(block);
	}
	return 0;
}

static void *in_thread(void *number)
{
	STAYS_BEHIND(at_depth(5 * (long)number, 310 + (long)number));
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];

	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, in_thread, (void *)i))
			_exit(1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	KEEP_BLOCK(309);
}

/* ---- a child in our memory ---- */

SITE static void in_child(void)
{
	KEEP_BLOCK(305);
}

static void vforks(void)
{
	pid_t child = vfork();

	if (!child) {
		in_child();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

int main(void)
{
	static const struct order orders[] = {
		{ "alone", alone },
		{ "empty", empty },
		{ "at_guard", at_guard },
		{ "paged_out", paged_out },
		{ "threads", threads },
		{ "vfork", vforks },
		{},
	};

	ready();
	obey_orders(orders);
	return 0;
}
