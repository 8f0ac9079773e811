/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_VICTIM_H
#define ALLOCSNAP_TESTS_VICTIM_H

/*
 * A process that is injected, and its parent, which answers for it: so all threads of the victim do what the test is about,
 * and none of them waits on stdin.
 *
 * Each line on stdin is answered by "rounds N bad M of PID". After the line "hold" the first thread of the victim stays
 * between two rounds until the next line: nothing changes then. At the end of stdin the parent ends the victim, and has
 * status 0 if nothing was bad. If the victim ends by itself, the parent says how.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
	atomic_long rounds, bad;
	atomic_long nr[4];	/* for what a mode and its controller count */
	atomic_int is_held;	/* the parent asks for it */
	atomic_int is_between;	/* it is between two rounds, or its only round has no end */
	atomic_int is_endless;
} *shared;

static inline void expect(int is_good, const char *what)
{
	if (!is_good && ++shared->bad <= 10)
		fprintf(stderr, "victim: %s (errno %d)\n", what, errno);
}

static inline int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* No word on the stack is left that was a return address: a sampler could not go. */
static __attribute__((noinline)) void wipe_stack(void)
{
	volatile char below[8192];

	memset((void *)below, 0, sizeof(below));
}

static __attribute__((noinline)) void use_blocks(int nr)
{
	for (int i = 1; i <= nr; i++) {
		size_t size = 16 + i * 7919 % 2000;
		volatile unsigned char *block = malloc(size);

		block[0] = i;
		block[size - 1] = i + 1;
		expect(block[0] == (unsigned char)i && block[size - 1] == (unsigned char)(i + 1), "a block is not kept");
		free((void *)block);
	}
}

/* Some pairs of malloc and free; blocks keep what was written to them. */
static inline void allocate(int nr)
{
	use_blocks(nr);
	wipe_stack();
}

static inline void end_round(void)
{
	shared->rounds++;
	shared->is_between = 1;
	while (shared->is_held)
		usleep(1000);
	shared->is_between = shared->is_endless;
}

/* Forks a child that ends with this process. */
static inline pid_t fork_helper(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(2, "fork");
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static inline int answer(pid_t victim, void (*control)(pid_t victim))
{
	char line[80];
	size_t used = 0;
	int len;

	do
		if (read(0, line + used, 1) != 1)
			return 0;
	while (line[used++] != '\n' && used < sizeof(line));
	shared->is_held = !strncmp(line, "hold", 4);
	for (int i = 0; i < 20000 && shared->is_held && !shared->is_between; i++) {
		usleep(1000);
		if (control)
			control(victim);
	}
	shared->rounds += shared->is_endless;
	len = snprintf(line, sizeof(line), "rounds %ld bad %ld of %d\n", (long)shared->rounds, (long)shared->bad, victim);
	return write(1, line, len) == len;
}

/* The status of the parent. control: what it does all the time, or NULL. */
static inline int answer_for(pid_t victim, void (*control)(pid_t victim))
{
	struct pollfd ready[] = { { 0, POLLIN, 0 }, { syscall(SYS_pidfd_open, victim, 0), POLLIN, 0 } };
	int status;

	for (;;) {
		if (control)
			control(victim);
		if (poll(ready, 2, control ? 0 : -1) < 0)
			err(2, "poll");
		if (ready[1].revents) {
			waitpid(victim, &status, 0);
			errx(3, "the victim has ended with status %#x", status);
		}
		if (ready[0].revents && !answer(victim, control))
			break;
	}
	kill(victim, SIGKILL);
	waitpid(victim, &status, 0);
	return shared->bad != 0;
}

/* Forks; returns in the victim. */
static inline void become_victim(void (*control)(pid_t victim))
{
	pid_t victim;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (shared == MAP_FAILED)
		err(2, "mmap");
	victim = fork_helper();
	if (victim)
		_exit(answer_for(victim, control));
}

/* ---- calls that are made again and again; nothing may show that somebody has stopped the thread ---- */

struct call {
	const char *name;
	long (*make)(void);
	long result;		/* or -errno */
	int limit_ms;		/* it does not end earlier, or less than a tick of the kernel */
	int is_endless, family, is_masked;
	void (*wake)(void), (*prepare)(void);
};

#define TICK_MS 4

/*
 * The kernel counts some limits in ticks. In a virtual machine ticks can come late, and several at once: then such a limit
 * ends early, but not by the clock that they move.
 */
static inline int is_over_early(const struct call *call, int64_t begun, int64_t begun_by_ticks)
{
	int64_t least_ns = (call->limit_ms - TICK_MS) * 1000000;

	return call->limit_ms && now_ns(CLOCK_MONOTONIC) - begun < least_ns &&
	       now_ns(CLOCK_MONOTONIC_COARSE) - begun_by_ticks < least_ns;
}

static inline void make_call(const struct call *call)
{
	int64_t begun = now_ns(CLOCK_MONOTONIC), begun_by_ticks = now_ns(CLOCK_MONOTONIC_COARSE);
	long result;

	errno = 0;
	result = call->make();
	if (result == -1)
		result = -errno;
	if (result != call->result && shared->bad < 10)
		fprintf(stderr, "%s: %ld, not %ld\n", call->name, result, call->result);
	expect(result == call->result, call->name);
	expect(!is_over_early(call, begun, begun_by_ticks), "its time limit comes early");
	allocate(3);
}

/* NAME, or -l, which lists them and returns NULL. */
static inline const struct call *find_call(const struct call *call, const char *name)
{
	for (; call->name && strcmp(call->name, name); call++)
		if (!strcmp(name, "-l"))
			puts(call->name);
	return call->name ? call : NULL;
}

static inline void make_calls(const struct call *call)
{
	allocate(3);
	shared->is_endless = shared->is_between = call->is_endless;
	for (;;) {
		make_call(call);
		end_round();
	}
}

/* ---- modes: in each round all threads do the mode's work, then the first one checks the sum of it ---- */

#define THREADS 4

struct mode {
	const char *name;
	void (*work)(int nr);
	void (*check)(void), (*prepare)(void);
	void (*control)(pid_t victim);
	int thread_nr; /* 0: the program's second argument says it, else 1 */
	int has_no_leader;
};

static const struct mode *mode;
static int mode_number; /* the second argument */
static pthread_barrier_t mode_barrier;
static atomic_long handled;
static long made[THREADS]; /* by each thread */

static inline long all_made(void)
{
	long sum = 0;

	for (int i = 0; i < THREADS; i++)
		sum += made[i];
	return sum;
}

static inline void check_handled(void)
{
	expect(handled == all_made(), "signals are lost, or come twice");
}

static inline void count_signal(int, siginfo_t *, void *)
{
	handled++;
}

static inline void handle(int signal_nr, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };

	if (sigaction(signal_nr, &action, NULL))
		err(2, "sigaction");
}

static inline void handle_traps(void)
{
	handle(SIGTRAP, count_signal);
}

static inline void work_nothing(int)
{
	allocate(300);
}

static inline void *run_mode(void *own_nr)
{
	int nr = (intptr_t)own_nr;

	for (;;) {
		mode->work(nr);
		pthread_barrier_wait(&mode_barrier);
		if (!nr && mode->check)
			mode->check();
		if (!nr)
			end_round();
		pthread_barrier_wait(&mode_barrier);
	}
	return NULL;
}

static inline __attribute__((noreturn)) void run_modes(const struct mode *modes, int argc, char **argv)
{
	pthread_t thread;
	intptr_t thread_nr;

	for (mode = modes; mode->name && (argc < 2 || strcmp(argv[1], mode->name));)
		mode++;
	mode_number = argc > 2 ? atoi(argv[2]) : 1;
	thread_nr = mode->thread_nr ?: mode_number;
	if (!mode->name || thread_nr > THREADS)
		errx(2, "which mode?");
	become_victim(mode->control);
	allocate(1);
	if (mode->prepare)
		mode->prepare();
	pthread_barrier_init(&mode_barrier, NULL, thread_nr);
	for (intptr_t i = thread_nr; --i;)
		pthread_create(&thread, NULL, run_mode, (void *)i);
	if (mode->has_no_leader) {
		pthread_create(&thread, NULL, run_mode, 0);
		pthread_exit(NULL);
	}
	run_mode(0);
	_exit(2);
}

#endif
