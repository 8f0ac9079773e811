// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * storm MODE [ARGUMENT]: a program that does one thing all the time, and checks it, while something is done to it from
 * outside. The modes are the rows of `modes`. For each line on stdin it prints "rounds N bad M", for all threads so far;
 * at the end of stdin it ends with status 0 if nothing was bad.
 *
 * In each mode two threads allocate by all functions and look whether their blocks keep what was written to them.
 */
#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define WORKERS 2
#define BLOCKS 64
#define ALTERNATE_BYTES (64 << 10)

static atomic_long rounds, bad;
static const char *argument;
extern char **environ;

static void expect(int is_good, const char *what)
{
	if (is_good)
		return;
	fprintf(stderr, "storm: %s (errno %d)\n", what, errno);
	bad++;
}

/* ---- blocks ---- */

struct block {
	unsigned char *byte;
	size_t size;
	unsigned char mark;
};

static void fill(struct block *block, size_t size, unsigned char mark)
{
	block->size = size;
	block->mark = mark;
	memset(block->byte, mark, size);
}

static void look_at(const struct block *block, size_t size)
{
	for (size_t i = 0; i < size; i += 97)
		expect(block->byte[i] == block->mark, "a block does not keep what was written to it");
}

static void replace(struct block *block, unsigned int random)
{
	size_t size = 1 + random % 3000;
	void *byte = NULL;

	if (block->byte)
		look_at(block, block->size);
	if (random % 7 == 0 && block->byte) {
		byte = realloc(block->byte, size);
		block->byte = byte;
		look_at(block, size < block->size ? size : block->size);
		fill(block, size, random >> 8);
		return;
	}
	free(block->byte);
	switch (random % 7) {
	case 1:
		byte = calloc(1, size);
		break;
	case 2:
		if (posix_memalign(&byte, 128, size))
			byte = NULL;
		break;
	case 3:
		byte = aligned_alloc(32, (size + 31) & ~31ul);
		break;
	case 4:
		byte = realloc(NULL, size);
		break;
	default:
		byte = malloc(size);
	}
	if (!byte)
		abort();
	block->byte = byte;
	fill(block, size, random >> 8);
}

static void allocate(unsigned int *seed, int nr)
{
	struct block block[BLOCKS] = {};

	for (int i = 0; i < nr; i++)
		replace(&block[rand_r(seed) % BLOCKS], rand_r(seed));
	for (int i = 0; i < BLOCKS; i++)
		free(block[i].byte);
	rounds++;
}

static void *run_worker(void *nr)
{
	unsigned int seed = (uintptr_t)nr;

	for (;;)
		allocate(&seed, 5000);
	return NULL;
}

/* ---- modes: each function is one round ---- */

static void round_alloc(unsigned int *seed)
{
	allocate(seed, 5000);
}

static void round_spawn(unsigned int *)
{
	static char *const argv[] = { "true", NULL };
	int status = -1;
	pid_t pid;

	expect(!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), "posix_spawn fails");
	expect(waitpid(pid, &status, 0) == pid && !status, "a spawned program ends badly");
}

static void round_fork(unsigned int *seed)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		allocate(seed, 500);
		_exit(0);
	}
	expect(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "a forked child ends badly");
}

static void *run_short_thread(void *seed)
{
	allocate(seed, 50);
	return NULL;
}

static void round_thread(unsigned int *seed)
{
	enum { NR = 8 };
	unsigned int seeds[NR];
	pthread_t thread[NR];

	for (int i = 0; i < NR; i++) {
		seeds[i] = rand_r(seed);
		expect(!pthread_create(&thread[i], NULL, run_short_thread, &seeds[i]), "pthread_create fails");
	}
	for (int i = 0; i < NR; i++)
		pthread_join(thread[i], NULL);
}

static void *run_sleeper(void *)
{
	static atomic_int tickets;
	unsigned int seed = ++tickets;

	for (;;) {
		allocate(&seed, 3);
		usleep(200000);
	}
	return NULL;
}

/* Many threads at a time, mostly asleep. */
static void round_crowd(unsigned int *seed)
{
	static int nr;
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	for (; nr < atoi(argument ?: "100"); nr++)
		expect(!pthread_create(&thread, &attributes, run_sleeper, NULL), "pthread_create fails");
	pthread_attr_destroy(&attributes);
	allocate(seed, 500);
}

static atomic_long ticks;

static void on_tick(int)
{
	ticks++;
}

static void *run_pairs(void *)
{
	for (;;) {
		for (int i = 0; i < 1000; i++) {
			void *volatile block = malloc(24);

			free(block);
		}
		rounds++;
	}
	return NULL;
}

/* Threads that are in the first instructions of malloc or free as often as can be. */
static void round_pairs(unsigned int *)
{
	pthread_t thread;

	for (int i = 0; i < 8; i++)
		expect(!pthread_create(&thread, NULL, run_pairs, NULL), "pthread_create fails");
	run_pairs(NULL);
}

/* A timer of 1 kHz interrupts whatever runs, on alternate stacks. */
static void round_signal(unsigned int *seed)
{
	const struct itimerval period = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART | SA_ONSTACK };
	stack_t stack = { .ss_size = ALTERNATE_BYTES };
	static int is_set;

	if (!is_set++) {
		stack.ss_sp = malloc(ALTERNATE_BYTES);
		sigaltstack(&stack, NULL);
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &period, NULL);
	}
	allocate(seed, 5000);
	expect(ticks > 0 || rounds < 1000, "no signal comes");
}

#ifndef STATIC
static void round_dlopen(unsigned int *seed)
{
	void *handle = dlopen(argument, RTLD_NOW | RTLD_LOCAL);

	expect(handle != NULL, "dlopen fails");
	if (handle)
		dlclose(handle);
	allocate(seed, 50);
}
#endif

/* ---- coroutines: small stacks in the heap, with other blocks below them ---- */

#define COROUTINES 16
#define COROUTINE_BYTES (16 << 10)

static ucontext_t scheduler, coroutine[COROUTINES];
static unsigned int coroutine_seed;

static void run_coroutine(int nr)
{
	for (;;) {
		struct block block = {};

		for (int i = 0; i < 10; i++) {
			replace(&block, rand_r(&coroutine_seed));
			swapcontext(&coroutine[nr], &scheduler);
		}
		free(block.byte);
	}
}

static void round_coroutine(unsigned int *seed)
{
	static int is_made;

	for (int i = 0; i < COROUTINES && !is_made; i++) {
		getcontext(&coroutine[i]);
		coroutine[i].uc_stack.ss_sp = malloc(COROUTINE_BYTES);
		coroutine[i].uc_stack.ss_size = COROUTINE_BYTES;
		makecontext(&coroutine[i], (void (*)(void))run_coroutine, 1, i);
	}
	is_made = 1;
	for (int i = 0; i < 2000; i++)
		swapcontext(&scheduler, &coroutine[rand_r(seed) % COROUTINES]);
	rounds++;
}

/* ---- calls that are interrupted ---- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static void *write_later(void *fd)
{
	usleep(30000);
	expect(write((int)(intptr_t)fd, "x", 1) == 1, "write fails");
	return NULL;
}

/* None of them may return early, or with EINTR: no signal comes. */
static void round_calls(unsigned int *seed)
{
	struct timespec wait = { .tv_nsec = 20000000 };
	int64_t begun = now_ms();
	uint32_t word = 1;
	pthread_t writer;
	int pipes[2];
	char byte;

	expect(!nanosleep(&wait, NULL), "nanosleep is interrupted");
	expect(now_ms() - begun >= 19, "nanosleep is too short");
	begun = now_ms();
	expect(syscall(SYS_futex, &word, FUTEX_WAIT, 1, &wait, NULL, 0) == -1 && errno == ETIMEDOUT, "futex is interrupted");
	expect(now_ms() - begun >= 19, "futex is too short");
	expect(!pipe(pipes), "no pipe");
	pthread_create(&writer, NULL, write_later, (void *)(intptr_t)pipes[1]);
	expect(read(pipes[0], &byte, 1) == 1 && byte == 'x', "read is interrupted");
	pthread_join(writer, NULL);
	close(pipes[0]);
	close(pipes[1]);
	allocate(seed, 10);
}

/* ---- numbers in registers that only the processor's extensions have ---- */

static void round_float(unsigned int *seed)
{
	double x = 1 + rand_r(seed) % 100, y = x, z = 3 * x;

	for (int i = 0; i < 2000000; i++) {
		__asm__ volatile("" : "+x"(x), "+x"(y), "+x"(z));
		if (__builtin_expect(x != y || z != 3 * x, 0))
			break;
	}
	expect(x == y && z == 3 * x, "a register has lost its number");
	rounds++;
}

/* ---- seccomp ---- */

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void enter_seccomp(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_brk), ALLOW(SYS_futex),
		ALLOW(SYS_exit_group), ALLOW(SYS_sched_yield), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	static const struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		err(2, "seccomp");
}

/* Memory comes by brk only: mmap and mprotect end the process. */
static void round_seccomp(unsigned int *seed)
{
	void *block[100];

	for (int i = 0; i < 100; i++)
		block[i] = malloc(1 + rand_r(seed) % 2000);
	for (int i = 0; i < 100; i++)
		free(block[i]);
	rounds++;
}

/* ---- the whole ---- */

static const struct mode {
	const char *name;
	void (*round)(unsigned int *seed);
	int is_alone; /* without the workers */
} modes[] = {
	{ "alloc", round_alloc },
	{ "spawn", round_spawn },
	{ "fork", round_fork },
	{ "thread", round_thread },
	{ "crowd", round_crowd },
	{ "pairs", round_pairs, 1 },
	{ "signal", round_signal },
#ifndef STATIC
	{ "dlopen", round_dlopen },
#endif
	{ "coroutine", round_coroutine },
	{ "calls", round_calls, 1 },
	{ "float", round_float },
	{ "seccomp", round_seccomp, 1 },
	{},
};

static void *run_mode(void *mode)
{
	unsigned int seed = 4711;

	for (;;) {
		((const struct mode *)mode)->round(&seed);
		if (((const struct mode *)mode)->is_alone)
			rounds++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct mode *mode = modes;
	pthread_t thread;
	char byte, line[80];

	while (mode->name && (argc < 2 || strcmp(argv[1], mode->name)))
		mode++;
	if (!mode->name)
		errx(2, "which mode?");
	argument = argv[2];
	if (mode->round == round_seccomp) {
		mallopt(M_ARENA_MAX, 1); /* the arena of brk */
		mallopt(M_TOP_PAD, 4 << 20); /* it has its final size at once: mappings are compared */
	}
	for (long i = 0; i < WORKERS && !mode->is_alone; i++)
		pthread_create(&thread, NULL, run_worker, (void *)(i + 1));
	pthread_create(&thread, NULL, run_mode, (void *)mode);
	while (!rounds)
		usleep(1000);
	/* The thread has what it allocates at its begin by now. */
	if (mode->round == round_seccomp)
		enter_seccomp();
	while (read(0, &byte, 1) == 1)
		if (byte == '\n') {
			int len = snprintf(line, sizeof(line), "rounds %ld bad %ld\n", (long)rounds, (long)bad);

			if (write(1, line, len) != len)
				break;
		}
	_exit(bad != 0);
}
