// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * walks MODE WALKS [PLUGIN…]: allocates on stacks that change under the walks of an exact recording, until so many of them
 * have been compared (tests/live/compared_exact.c, which is preloaded). The modes are the rows of `modes`.
 */
#include <dlfcn.h>
#include <err.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define SITE __attribute__((noipa))
#define DEEPEST 120
#define ALMOST_TOO_DEEP 480 /* of BOOKS_NATIVE_DEEPEST frames */

extern unsigned long compared_walks(void) __attribute__((weak));

static unsigned long wanted;
static char **plugin;
static int plugin_nr;

static int is_done(void)
{
	return compared_walks() >= wanted;
}

SITE static void allocate(size_t size)
{
	void *volatile block = malloc(size);

	free(block);
}

SITE static void descend(int depth)
{
	volatile char local[40];

	local[0] = depth;
	if (depth)
		descend(depth - 1);
	else
		allocate(30);
	local[1] = local[0];
}

/* ---- signal handlers, on the same stack and on another one, which return, or jump out ---- */

static sigjmp_buf before;
static volatile sig_atomic_t may_jump, signals;

static void on_alarm(int)
{
	allocate(10 + ++signals % 100);
	if (may_jump && signals % 7 == 0)
		siglongjmp(before, 1);
}

static void set_alarm(int flags, long period_us)
{
	const struct itimerval period = { { 0, period_us }, { 0, period_us } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART | flags };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &period, NULL);
}

static void be_interrupted(int flags)
{
	stack_t stack = { .ss_sp = malloc(64 << 10), .ss_size = 64 << 10 };

	sigaltstack(&stack, NULL);
	set_alarm(flags, 500);
	for (volatile int i = 0; !is_done() || signals < 100; i++)
		descend(i % 60);
	may_jump = 1;
	for (volatile int i = 0; signals < 200; i++)
		if (!sigsetjmp(before, 1))
			descend(i % 60);
	may_jump = 0;
	set_alarm(flags, 0);
}

static void run_signals(void)
{
	be_interrupted(0);
}

static void run_alternate(void)
{
	be_interrupted(SA_ONSTACK);
}

/* ---- coroutines: stacks of several sizes come and go at the same addresses ---- */

#define COROUTINES 50

static ucontext_t scheduler, coroutine[COROUTINES];
static int is_alive[COROUTINES];

static void run_coroutine(int nr)
{
	for (int i = 0; i < 20; i++) {
		descend(nr % 30 + i % 3);
		swapcontext(&coroutine[nr], &scheduler);
	}
	is_alive[nr] = 0;
}

static void make_coroutine(int nr, void *stack, size_t size)
{
	getcontext(&coroutine[nr]);
	coroutine[nr].uc_stack.ss_sp = stack;
	coroutine[nr].uc_stack.ss_size = size;
	coroutine[nr].uc_link = &scheduler;
	makecontext(&coroutine[nr], (void (*)(void))run_coroutine, 1, nr);
	is_alive[nr] = 1;
}

static void *map_stack(size_t size)
{
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		err(2, "mmap");
	return stack;
}

static void run_coroutines(void)
{
	for (int round = 0; !is_done(); round++) {
		for (int i = 0; i < COROUTINES; i++) {
			size_t size = 16384 + 4096 * ((i + round) % 7);

			make_coroutine(i, map_stack(size), size);
		}
		for (int k = 0; k < 25; k++)
			for (int i = 0; i < COROUTINES; i++)
				if (is_alive[i])
					swapcontext(&scheduler, &coroutine[i]);
		for (int i = 0; i < COROUTINES; i++)
			munmap(coroutine[i].uc_stack.ss_sp, coroutine[i].uc_stack.ss_size);
	}
}

/* ---- libraries: other code comes to the same addresses ---- */

static void *open_plugin(int nr, void *(**ret_function)(int, int))
{
	void *handle = dlopen(plugin[nr % plugin_nr], RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		errx(2, "%s", dlerror());
	*ret_function = (void *(*)(int, int))dlsym(handle, "plug");
	return handle;
}

static void run_plugins(void)
{
	void *(*plug)(int, int);

	for (int i = 0; i < 30 || !is_done(); i++) {
		void *handle = open_plugin(i, &plug);
		unsigned long begun = compared_walks();

		for (int k = 0; compared_walks() < begun + 100 || k < 100; k++) {
			free(plug(k % 5, i));
			if (k >= 100 && compared_walks() == begun)
				usleep(1000); /* the recorder looks at the plugin */
		}
		dlclose(handle);
	}
}

/* ---- depth, and threads ---- */

/* Frames of one size: below another one of them, all the others lie where they lay. */
#define DEFINE_CALLER(name) \
	SITE static void name(int depth) \
	{ \
		volatile char local[40]; \
		local[0] = depth; \
		descend(depth); \
		local[1] = local[0]; \
	}

DEFINE_CALLER(call_deep)
DEFINE_CALLER(call_deeper)

static void run_deep(void)
{
	for (int i = 0; !is_done(); i++) {
		descend(i % 512 ? i % DEEPEST : 2000);
		if (i % 256)
			continue;
		call_deep(ALMOST_TOO_DEEP);
		call_deeper(ALMOST_TOO_DEEP + 50);
	}
}

static void *run_thread(void *nr)
{
	for (int i = 0; i < 3000; i++)
		descend((i + (intptr_t)nr * 7) % 40);
	return NULL;
}

static void run_threads(void)
{
	enum { NR = 4 };
	pthread_t thread[NR];

	while (!is_done()) {
		for (intptr_t i = 0; i < NR; i++)
			if (pthread_create(&thread[i], NULL, run_thread, (void *)i))
				errx(2, "pthread_create");
		for (int i = 0; i < NR; i++)
			pthread_join(thread[i], NULL);
	}
}

static const struct mode {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "signals", run_signals },
	{ "alternate", run_alternate },
	{ "coroutines", run_coroutines },
	{ "plugins", run_plugins },
	{ "deep", run_deep },
	{ "threads", run_threads },
	{},
};

int main(int argc, char **argv)
{
	const struct mode *mode = modes;

	while (mode->name && (argc < 3 || strcmp(argv[1], mode->name)))
		mode++;
	if (!mode->name)
		errx(2, "which mode, and how many walks?");
	if (!compared_walks)
		errx(2, "no library compares walks");
	wanted = strtoul(argv[2], NULL, 10);
	plugin = argv + 3;
	plugin_nr = argc - 3;
	mode->run();
	return 0;
}
