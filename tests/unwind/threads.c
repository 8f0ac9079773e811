// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK_US 50

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(2);
}

static void pause_us(unsigned int us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000L }, NULL);
}

/* ---- what we know of them ---- */

static struct thread *find(struct threads *threads, pid_t tid)
{
	for (size_t i = 0; i < threads->nr; i++)
		if (threads->thread[i].tid == tid)
			return &threads->thread[i];
	must(threads->nr < THREADS_MAX, "more threads than expected");
	threads->thread[threads->nr] = (struct thread){ .tid = tid };
	return &threads->thread[threads->nr++];
}

static void forget(struct threads *threads, pid_t tid)
{
	*find(threads, tid) = threads->thread[threads->nr - 1];
	threads->nr--;
}

/* A stop is on the way to a signal, or an event of ptrace's own (PTRACE_EVENT_…, above it). */
static void note(struct threads *threads, pid_t tid, int status)
{
	struct thread *thread;

	if (!WIFSTOPPED(status)) {
		forget(threads, tid);
		return;
	}
	thread = find(threads, tid);
	thread->is_stopped = true;
	thread->signal = status >> 16 ? 0 : WSTOPSIG(status);
}

/* False if there was nothing to hear. */
static bool hear(struct threads *threads, int flags)
{
	int status;
	pid_t tid = waitpid(-1, &status, __WALL | flags);

	if (tid <= 0)
		return false;
	note(threads, tid, status);
	return true;
}

/* ---- the child ---- */

static void become(int wait_fd, char **argv)
{
	int null = open("/dev/null", O_RDWR);
	char byte;

	if (read(wait_fd, &byte, 1) < 0)
		_exit(126);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (!getenv("UNWIND_STDERR"))
		dup2(null, STDERR_FILENO);
	execvp(*argv, argv);
	_exit(127);
}

void threads__start(struct threads *threads, char **argv)
{
	int go[2];

	must(!pipe2(go, O_CLOEXEC), "pipe");
	*threads = (struct threads){ .pid = fork() };
	if (!threads->pid) {
		close(go[1]);
		become(go[0], argv);
	}
	must(threads->pid > 0, "fork");
	must(!ptrace(PTRACE_SEIZE, threads->pid, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL),
	     "PTRACE_SEIZE");
	find(threads, threads->pid);
	close(go[0]);
	close(go[1]);
}

void threads__resume(struct threads *threads)
{
	for (size_t i = 0; i < threads->nr; i++) {
		struct thread *thread = &threads->thread[i];

		if (thread->is_stopped)
			ptrace(PTRACE_CONT, thread->tid, 0, thread->signal);
		thread->is_stopped = false;
	}
}

bool threads__run(struct threads *threads, unsigned int us)
{
	for (unsigned int past = 0; threads->nr && past < us; past += TICK_US) {
		threads__resume(threads);
		pause_us(TICK_US);
		while (hear(threads, WNOHANG))
			;
	}
	threads__resume(threads);
	return threads->nr;
}

static bool all_stopped(const struct threads *threads)
{
	for (size_t i = 0; i < threads->nr; i++)
		if (!threads->thread[i].is_stopped)
			return false;
	return true;
}

bool threads__stop(struct threads *threads)
{
	for (size_t i = 0; i < threads->nr; i++)
		ptrace(PTRACE_INTERRUPT, threads->thread[i].tid, 0, 0);
	while (!all_stopped(threads) && hear(threads, 0))
		;
	return threads->nr;
}

void threads__kill(struct threads *threads)
{
	if (threads->nr)
		kill(threads->pid, SIGKILL);
	while (threads->nr && hear(threads, 0))
		threads__resume(threads);
}
