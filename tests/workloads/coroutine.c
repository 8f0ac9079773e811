// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A coroutine that allocates, on a stack of its own.
 *
 *	go N	the coroutine allocates N blocks of 100 bytes, and yields after each
 */
#include <ucontext.h>

#include "workload.h"

static ucontext_t main_context, coroutine_context;
static char stack[64 << 10];
static void *volatile last;

static void coroutine(void)
{
	for (;;) {
		last = malloc(100);
		swapcontext(&coroutine_context, &main_context);
	}
}

int main(void)
{
	long nr, all = 0;

	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = stack;
	coroutine_context.uc_stack.ss_size = sizeof(stack);
	makecontext(&coroutine_context, coroutine, 0);
	ready();
	while (sscanf(next_command(), "go %ld", &nr) == 1) {
		for (long i = 0; i < nr; i++, all++)
			swapcontext(&main_context, &coroutine_context);
		answer("{\"done\": {\"count\": %ld, \"size\": %ld}}", all, all * 100);
	}
	return 0;
}
