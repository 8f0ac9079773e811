// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program with an allocator of its own that allocates inside the allocator's calls: in a signal handler
 * on an alternate stack above or below the thread's, in another coroutine, or 64 calls deep; or while its system
 * calls go to a handler. If return probes hijack such calls, the kernel ends the program with SIGILL or SIGSYS.
 *
 *	above N, below N, coroutines N, nested N	N outer calls each
 *	above N SECONDS, below N SECONDS		that long after the alternate stack was set up
 *	dispatched N		N calls with nothing inside, under syscall user dispatch, which stays on for others
 *	churn SECONDS		sets up an alternate stack and makes calls with nothing inside
 *	quit
 *
 * stacks_late.c is this without coroutines: nothing in the file shows in advance that it does this.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucontext.h>

#include "workload.h"

#define SLOT_BYTES 1024
#define SLOT_NR 4096
#define STACK_BYTES (128 << 10)
#define DEEP 64

/* ---- the allocator: slots of one size, the last freed first; and its own counts ---- */

static _Alignas(SLOT_BYTES) char slots[SLOT_NR][SLOT_BYTES];
static size_t slot_size[SLOT_NR]; /* of blocks whose call was not inside another one; otherwise 0 */
static char *free_slot[SLOT_NR];
static size_t free_nr, fresh_nr;

static unsigned int pending; /* calls under way */
static bool is_nested;	     /* a call inside on the same stack belongs to the outer call */
static long allocations, frees, unknown_frees;
static long live_nr, live_bytes;

static void (*inside)(void); /* what happens in the middle of the next call */

static void *begin(void)
{
	char *slot = free_nr ? free_slot[--free_nr] : slots[fresh_nr++];
	void (*now)(void) = inside;

	if (fresh_nr > SLOT_NR)
		abort();
	pending++;
	inside = NULL;
	if (now)
		now();
	return slot;
}

static void *end(char *slot, size_t size)
{
	bool is_outer = !--pending;

	if (size > SLOT_BYTES)
		abort();
	slot_size[(slot - slots[0]) / SLOT_BYTES] = is_outer ? size : 0;
	allocations += is_outer;
	live_nr += is_outer;
	live_bytes += is_outer ? size : 0;
	return slot;
}

static void forget(char *slot)
{
	size_t size = slot_size[(slot - slots[0]) / SLOT_BYTES];

	free_slot[free_nr++] = slot;
	if (is_nested && pending)
		return;
	frees += size > 0;
	unknown_frees += !size;
	live_nr -= size > 0;
	live_bytes -= size;
}

SITE void *malloc(size_t size)
{
	return end(begin(), size);
}

SITE void free(void *slot)
{
	if (slot)
		forget(slot);
}

SITE void *calloc(size_t n, size_t size)
{
	return memset(end(begin(), n * size), 0, n * size);
}

SITE void *realloc(void *old, size_t size)
{
	char *slot = begin();

	if (old)
		forget(memcpy(slot, old, SLOT_BYTES) ? old : NULL);
	return end(slot, size);
}

/* ---- what happens inside a call ---- */

static char *kept_outer, *kept_inner;

/* A block of an unrecorded call, and the free of a recorded block. */
static void allocate_inside(void)
{
	char *inner = malloc(24);

	free(kept_inner);
	kept_inner = inner;
	free(kept_outer);
	kept_outer = NULL;
}

static void on_signal(int)
{
	allocate_inside();
}

static void raise_signal(void)
{
	raise(SIGUSR1);
}

#ifndef NO_COROUTINES
static ucontext_t outer_context, inner_context;

static void switch_to_inner(void)
{
	swapcontext(&outer_context, &inner_context);
}

static void inner_coroutine(void)
{
	for (;;) {
		allocate_inside();
		swapcontext(&inner_context, &outer_context);
	}
}

#endif

static unsigned int depth;

static void go_deeper(void)
{
	char *volatile block; /* or the compiler leaves both calls out */

	if (++depth < DEEP - 1)
		inside = go_deeper;
	block = malloc(8);
	free(block);
}

/* ---- the outer calls ---- */

static long call_nr, pause_seconds;

static void *outer_calls(void *what_inside)
{
	for (long i = 0; i < call_nr; i++) {
		char *outer;

		depth = 0;
		inside = (void (*)(void))what_inside;
		outer = malloc(40);
		free(kept_outer);
		kept_outer = outer;
	}
	return NULL;
}

/* The handler is SIGSYS's default, which ends the program: no call is expected here. */
static void dispatched_calls(void)
{
	static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;

	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector))
		_exit(1);
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	for (long i = 0; i < call_nr; i++) {
		free(kept_outer);
		kept_outer = realloc(malloc(40), 48);
	}
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
}

/* Two stacks side by side: the outer one runs a thread or a coroutine, the inner one allocates inside its call. */
struct stacks {
	char *outer, *inner;
};

static struct stacks make_stacks(bool inner_is_above)
{
	char *both = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (both == MAP_FAILED)
		_exit(1);
	return (struct stacks){ .outer = both + (inner_is_above ? 0 : STACK_BYTES),
				.inner = both + (inner_is_above ? STACK_BYTES : 0) };
}

static void *calls_with_handler(void *stacks_)
{
	const struct stacks *stacks = stacks_;
	stack_t alternate = { .ss_sp = stacks->inner, .ss_size = STACK_BYTES };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	if (sigaltstack(&alternate, NULL) || sigaction(SIGUSR1, &action, NULL))
		_exit(1);
	sleep(pause_seconds);
	return outer_calls((void *)raise_signal);
}

static void with_handler(bool above)
{
	struct stacks stacks = make_stacks(above);
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stacks.outer, STACK_BYTES) ||
	    pthread_create(&thread, &attr, calls_with_handler, &stacks) ||
	    pthread_join(thread, NULL))
		_exit(1);
}

#ifndef NO_COROUTINES
static ucontext_t main_context;

static void outer_coroutine(void)
{
	outer_calls((void *)switch_to_inner);
	swapcontext(&outer_context, &main_context);
}

static void make_coroutine(ucontext_t *context, char *stack, void (*run)(void))
{
	getcontext(context);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = STACK_BYTES;
	makecontext(context, run, 0);
}

static void with_coroutines(void)
{
	for (int above = 0; above < 2; above++) {
		struct stacks stacks = make_stacks(above);

		make_coroutine(&inner_context, stacks.inner, inner_coroutine);
		make_coroutine(&outer_context, stacks.outer, outer_coroutine);
		swapcontext(&main_context, &outer_context);
	}
}

#else
static void with_coroutines(void)
{
	_exit(1);
}
#endif

static void churn(long seconds)
{
	static char alternate_stack[STACK_BYTES];
	stack_t alternate = { .ss_sp = alternate_stack, .ss_size = STACK_BYTES };
	time_t end = time(NULL) + seconds;

	if (sigaltstack(&alternate, NULL))
		_exit(1);
	while (time(NULL) < end) {
		char *a = malloc(8), *b = calloc(2, 8);

		free(kept_outer);
		kept_outer = realloc(a, 16);
		free(b);
	}
}

static void run(const char *name)
{
	is_nested = !strcmp(name, "nested");
	if (!strcmp(name, "above") || !strcmp(name, "below"))
		with_handler(*name == 'a');
	else if (!strcmp(name, "coroutines"))
		with_coroutines();
	else if (!strcmp(name, "churn"))
		churn(call_nr);
	else if (!strcmp(name, "dispatched"))
		dispatched_calls();
	else
		outer_calls((void *)go_deeper);
	is_nested = false;
}

int main(void)
{
	ready();
	for (;;) {
		char name[32];

		pause_seconds = 0;
		if (sscanf(next_command(), "%31s %ld %ld", name, &call_nr, &pause_seconds) < 2)
			return 0;
		run(name);
		answer("{\"done\": {\"count\": %ld, \"size\": %ld, \"allocations\": %ld, "
		       "\"frees\": %ld, \"unknown_frees\": %ld}}", live_nr, live_bytes, allocations,
		       frees, unknown_frees);
	}
}
