// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stack frames of many kinds, without frame pointers (-O2), over and over until it is killed: signal handlers on the
 * thread's own and on an alternate stack, nested ones too; stacks that are realigned, or grown by alloca; coroutines;
 * calls out of the vDSO, through the PLT for the first time (-z lazy), out of qsort; functions that end with a call
 * that never returns; threads.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

#define NOIPA __attribute__((noipa))

static volatile unsigned long sink;

NOIPA static void spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		sink += i;
}

/* ---- signals ---- */

static void on_prof(int)
{
	spin(3000);
}

/* Another one inside this one. */
static void on_alarm(int)
{
	spin(1000);
	raise(SIGUSR1);
	spin(1000);
}

static void use_alternate_stack(void)
{
	stack_t stack = { .ss_sp = malloc(64 << 10), .ss_size = 64 << 10 };

	sigaltstack(&stack, NULL);
}

static void begin_signals(void)
{
	struct sigaction prof = { .sa_handler = on_prof, .sa_flags = SA_RESTART };
	struct sigaction alarm = { .sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK };
	struct itimerval each = { { 0, 500 }, { 0, 500 } };

	sigaction(SIGPROF, &prof, NULL);
	sigaction(SIGUSR1, &prof, NULL);
	sigaction(SIGALRM, &alarm, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
	setitimer(ITIMER_PROF, &each, NULL);
}

/* ---- kinds of frames ---- */

NOIPA static void realigned(unsigned long n)
{
	_Alignas(64) char buf[128];

	memset(buf, (int)n, sizeof(buf));
	spin(n);
	sink += buf[n % sizeof(buf)];
}

/* Realigned, and of a size known at run time only: the CFA is found through a saved pointer. */
NOIPA static void realigned_grown(unsigned long n)
{
	_Alignas(64) char buf[128];
	char *more = alloca(n % 977 + 16);

	memset(buf, (int)n, sizeof(buf));
	memset(more, (int)n, n % 977 + 16);
	realigned(n);
	sink += buf[n % sizeof(buf)] + more[n % 16];
}

NOIPA static unsigned long large(unsigned long n)
{
	volatile char buf[70000];

	buf[n % sizeof(buf)] = (char)n;
	realigned_grown(n);
	return buf[(n + 1) % sizeof(buf)];
}

NOIPA static unsigned long recurse(unsigned long depth)
{
	return depth ? recurse(depth - 1) + depth : large(2000);
}

static int compare(const void *left, const void *right)
{
	spin(20);
	return *(const int *)left - *(const int *)right;
}

NOIPA static void sort(void)
{
	int item[300];

	for (int i = 0; i < 300; i++)
		item[i] = i * 7919 % 307;
	qsort(item, 300, sizeof(*item), compare);
}

NOIPA static void ask_time(void)
{
	struct timespec now;

	for (int i = 0; i < 3000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink += now.tv_nsec;
	}
}

static __thread jmp_buf back;

NOIPA __attribute__((noreturn)) static void leave(void)
{
	spin(2000);
	longjmp(back, 1);
}

/* Its last instruction is a call: the return address is the next function's. */
NOIPA static void never_returns(unsigned long n)
{
	if (n)
		leave();
}

NOIPA static void jump(void)
{
	if (!setjmp(back))
		never_returns(sink | 1);
}

/* ---- coroutines ---- */

static ucontext_t outer, inner;

static void coroutine(void)
{
	for (;;) {
		recurse(5);
		swapcontext(&inner, &outer);
	}
}

static void begin_coroutine(void)
{
	getcontext(&inner);
	inner.uc_stack.ss_size = 256 << 10;
	inner.uc_stack.ss_sp = malloc(inner.uc_stack.ss_size);
	makecontext(&inner, coroutine, 0);
}

/* ---- the dynamic loader ---- */

/* Opened anew it is at first not linked: each call of its goes through the resolver. */
NOIPA static void load(void)
{
	void *library = dlopen("libz.so.1", RTLD_LAZY);
	unsigned long (*bound)(unsigned long) =
		library ? (unsigned long (*)(unsigned long))dlsym(library, "compressBound") : NULL;

	if (bound)
		sink += bound(100);
	if (library)
		dlclose(library);
}

static void all_kinds(unsigned long round)
{
	recurse(round % 40);
	sort();
	ask_time();
	jump();
	load();
}

__attribute__((noreturn)) static void *in_a_thread(void *)
{
	use_alternate_stack();
	for (unsigned long i = 0;; i++)
		all_kinds(i);
}

int main(void)
{
	pthread_t thread;

	use_alternate_stack();
	begin_signals();
	begin_coroutine();
	pthread_create(&thread, NULL, in_a_thread, NULL);
	for (unsigned long i = 0;; i++) {
		all_kinds(i);
		swapcontext(&outer, &inner);
	}
}
