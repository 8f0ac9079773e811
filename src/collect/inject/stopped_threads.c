// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/stopped_threads.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/process/proc.h"

#define STOP_LIMIT_NS (500ull * 1000 * 1000)

/* ---- the tracer ---- */

struct tracer {
	int (*work)(void *argument);
	void *argument;
	int result;
};

static void *run_tracer(void *argument)
{
	struct tracer *tracer = argument;

	tracer->result = tracer->work(tracer->argument);
	return NULL;
}

int run_as_tracer(int (*work)(void *argument), void *argument)
{
	struct tracer tracer = { work, argument, 0 };
	pthread_t thread;
	int err = pthread_create(&thread, NULL, run_tracer, &tracer);

	if (err)
		return -err;
	pthread_join(thread, NULL);
	return tracer.result;
}

/* ---- threads ---- */

int set_thread_registers(struct stopped_thread *thread)
{
	return ptrace(PTRACE_SETREGS, thread->tid, 0, &thread->registers) ? -errno : 0;
}

int wait_for_trace_stop(pid_t tid, uint64_t limit_ns)
{
	uint64_t until = monotonic_now_ns() + limit_ns;
	unsigned int tries = 0;
	int status;

	for (;;) {
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid)
			return status;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (monotonic_now_ns() > until)
			return -ETIMEDOUT;
		if (++tries > 50) /* most stop at once */
			nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
}

/* The state in /proc/PID/task/TID/stat; 0: it has ended. */
static char thread_state(pid_t pid, pid_t tid)
{
	char path[64], text[512], *at;
	size_t bytes;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[bytes] = '\0';
	at = strrchr(text, ')');
	return at && at[1] == ' ' ? at[2] : 0;
}

static bool has_thread_ended(pid_t pid, pid_t tid)
{
	char state = thread_state(pid, tid);

	return !state || state == 'Z' || state == 'X';
}

static bool is_known_thread(const struct stopped_threads *threads, size_t nr, pid_t tid)
{
	for (size_t i = 0; i < nr; i++)
		if (threads->thread[i].tid == tid)
			return true;
	return false;
}

/* Its filter would see the calls that the thread makes for us, if it could not be suspended. */
static bool has_seccomp(pid_t tid)
{
	uint64_t mode = 0;

	return proc_status(tid, "Seccomp", &mode) || mode;
}

static int seize_thread(struct stopped_threads *threads, pid_t tid, struct reason *why)
{
	uint64_t tracer = 0;
	int err;

	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_SUSPEND_SECCOMP)) {
		err = -errno;
		if (err == -ESRCH || has_thread_ended(threads->pid, tid))
			return 0;
		if (!proc_status(tid, "TracerPid", &tracer) && tracer)
			return reason_set(why, -EAGAIN, "process %d traces thread %d (a debugger, or strace)", (int)tracer, tid);
		if (err == -EPERM && has_seccomp(tid))
			return reason_set(why, err, "thread %d is under seccomp: suspending that needs CAP_SYS_ADMIN", tid);
		if (err != -EPERM || ptrace(PTRACE_SEIZE, tid, 0, 0))
			return reason_set(why, err == -EPERM ? -EPERM : -EAGAIN, "thread %d cannot be stopped: %s", tid,
					  strerror(-err));
	}
	err = array_push(threads, thread, (struct stopped_thread){ .tid = tid });
	if (err)
		ptrace(PTRACE_DETACH, tid, 0, 0);
	else
		ptrace(PTRACE_INTERRUPT, tid, 0, 0); /* fails if it ends, which waiting shows */
	return err;
}

/* Seizes all threads that are not yet known. Counts what the kernel lists, and how many of them were not known. */
static int seize_new_threads(struct stopped_threads *threads, uint64_t *listed_nr, uint64_t *new_nr, struct reason *why)
{
	size_t known = threads->thread_nr;
	struct dirent *entry;
	char path[64];
	int err = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", threads->pid);
	dir = opendir(path);
	if (!dir)
		return reason_set(why, -ESRCH, "process %d has ended", threads->pid);
	while (!err && (entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;

		*listed_nr += tid != 0;
		if (!tid || is_known_thread(threads, known, tid))
			continue;
		++*new_nr;
		err = seize_thread(threads, tid, why);
	}
	closedir(dir);
	return err;
}

/* A thread of a stopped process (SIGSTOP) would need to be stopped anew. */
static int take_stop(struct stopped_threads *threads, size_t i, int status, struct reason *why)
{
	struct stopped_thread *thread = &threads->thread[i];
	bool is_event = status >> 16;

	thread->is_stopped = true;
	if (is_event && WSTOPSIG(status) != SIGTRAP)
		return reason_set(why, -EAGAIN, "process %d is stopped", threads->pid);
	if (!is_event)
		thread->signal = WSTOPSIG(status);
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->registers))
		return reason_set(why, -EAGAIN, "thread %d is ending", thread->tid);
	return 0;
}

static int wait_for_threads(struct stopped_threads *threads, size_t first, struct reason *why)
{
	uint64_t until = threads->begun_ns + STOP_LIMIT_NS;
	int err = 0;

	for (size_t i = first; i < threads->thread_nr && !err; i++) {
		uint64_t now = monotonic_now_ns();
		int status = wait_for_trace_stop(threads->thread[i].tid, now < until ? until - now : 0);

		if (status == -ETIMEDOUT)
			err = reason_set(why, -EAGAIN, "thread %d does not stop: it waits in the kernel (vfork, a disk)",
					 threads->thread[i].tid);
		else if (status < 0 || !WIFSTOPPED(status)) /* it has ended */
			threads->thread[i--] = threads->thread[--threads->thread_nr];
		else
			err = take_stop(threads, i, status, why);
	}
	return err;
}

/* The kernel's list passes over a thread if another one ends while it is read. */
static bool lists_all_threads(pid_t pid, uint64_t listed_nr)
{
	uint64_t nr;

	return proc_status(pid, "Threads", &nr) || nr == listed_nr;
}

/* Until a list is whole and has no new ones, not even one that ends before it is seized: it may have begun another one. */
static int stop_all_threads(struct stopped_threads *threads, struct reason *why)
{
	for (;;) {
		size_t first = threads->thread_nr;
		uint64_t listed_nr = 0, new_nr = 0;
		int err = seize_new_threads(threads, &listed_nr, &new_nr, why) ?: wait_for_threads(threads, first, why);

		if (err || (!new_nr && lists_all_threads(threads->pid, listed_nr)))
			return err;
		if (monotonic_now_ns() > threads->begun_ns + STOP_LIMIT_NS)
			return reason_set(why, -EAGAIN, "threads of process %d begin and end too fast", threads->pid);
	}
}

int stop_threads(pid_t pid, struct stopped_threads *ret, struct reason *why)
{
	int err;

	*ret = (struct stopped_threads){ .pid = pid, .begun_ns = monotonic_now_ns() };
	err = stop_all_threads(ret, why);
	if (!err && !ret->thread_nr)
		err = reason_set(why, -ESRCH, "process %d has ended", pid);
	if (err)
		resume_threads(ret);
	return err;
}

void resume_threads(struct stopped_threads *threads)
{
	for (size_t i = 0; i < threads->thread_nr; i++) {
		struct stopped_thread *thread = &threads->thread[i];
		int status;

		/* After an error some were not waited for. */
		if (!thread->is_stopped && waitpid(thread->tid, &status, __WALL | WNOHANG) == thread->tid &&
		    WIFSTOPPED(status) && !(status >> 16))
			thread->signal = WSTOPSIG(status);
		ptrace(PTRACE_DETACH, thread->tid, 0, (void *)(long)thread->signal); /* fails for one that has not stopped */
	}
	threads->stopped_ns = monotonic_now_ns() - threads->begun_ns;
	free(threads->thread);
	threads->thread = NULL;
	threads->thread_alloc = 0;
}
