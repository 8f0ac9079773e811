// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/stopped_threads.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/process/proc.h"

#define STOP_LIMIT_NS (SECOND_NS / 2)
#define GRACE_NS (SECOND_NS / 10) /* after an error, while the others go on */

/* ---- threads ---- */

int set_thread_registers(struct stopped_thread *thread)
{
	return ptrace(PTRACE_SETREGS, thread->tid, 0, &thread->registers) ? -errno : 0;
}

int wait_for_trace_stop(pid_t tid, uint64_t until_ns)
{
	unsigned int tries = 0;
	int status;

	for (;;) {
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid)
			return status;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (monotonic_now_ns() > until_ns)
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

	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP)) {
		err = -errno;
		if (err == -ESRCH || has_thread_ended(threads->pid, tid))
			return 0;
		if (!proc_status(tid, "TracerPid", &tracer) && tracer)
			return reason_set(why, -EAGAIN, "process %d traces thread %d (a debugger, or strace)", (int)tracer, tid);
		if (err == -EPERM && has_seccomp(tid))
			return reason_set(why, err, "thread %d is under seccomp: suspending that needs CAP_SYS_ADMIN", tid);
		if (err != -EPERM || ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD))
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

/*
 * Seizes all threads that are not yet known. Counts what the kernel lists, and how many of them were not known. The leader
 * is the last one, and the first one to go on: while it is traced, signals that the process ignores wake other threads.
 */
static int seize_new_threads(struct stopped_threads *threads, uint64_t *listed_nr, uint64_t *new_nr, struct reason *why)
{
	size_t known = threads->thread_nr;
	bool has_leader = false;
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
		has_leader |= tid == threads->pid;
		if (tid != threads->pid)
			err = seize_thread(threads, tid, why);
	}
	closedir(dir);
	return !err && has_leader ? seize_thread(threads, threads->pid, why) : err;
}

/* ---- what a stop has ended ---- */

/* The kernel keeps such a signal from other processes, but not from a tracee. */
static bool is_ignored_signal(pid_t pid, int signal)
{
	const uint64_t bit = UINT64_C(1) << (signal - 1);
	uint64_t ignored = 0, caught = 0;

	if (proc_status_mask(pid, "SigIgn", &ignored) || proc_status_mask(pid, "SigCgt", &caught))
		return false;
	return ignored & bit || (!(caught & bit) && (signal == SIGCHLD || signal == SIGCONT || signal == SIGURG ||
						     signal == SIGWINCH));
}

/* The instruction before a thread's next one, by which it made its call. */
enum call_insn {
	CALL_OTHER,
	CALL_SYSCALL = 0x050f,
	CALL_INT80 = 0x80cd, /* of 32-bit calls; sysenter comes back behind one, too */
};

static enum call_insn call_insn_of(const struct stopped_thread *thread)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, thread->tid, (void *)(thread->registers.rip - 2), NULL);
	return errno ? CALL_OTHER : word & 0xffff;
}

/* It has done its work before it returns EINTR. X32_SYSCALL_BIT is in the number of programs for x32. */
static bool is_close(enum call_insn insn, uint64_t number)
{
	return insn == CALL_INT80 ? number == 6 : (number & ~UINT64_C(0x40000000)) == SYS_close;
}

/*
 * Most calls that a stop interrupts are made again by the kernel. Some end with EINTR (signal(7)), which a program without
 * handlers need not expect: these are made again here. Their timeouts begin anew.
 */
static int make_call_again(struct stopped_thread *thread)
{
	enum call_insn insn;

	if ((long)thread->registers.orig_rax < 0 || (int)thread->registers.rax != -EINTR)
		return 0;
	insn = call_insn_of(thread);
	if ((insn != CALL_SYSCALL && insn != CALL_INT80) || is_close(insn, thread->registers.orig_rax))
		return 0;
	thread->registers.rax = thread->registers.orig_rax;
	thread->registers.rip -= 2;
	return set_thread_registers(thread);
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
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->registers) ||
	    ((is_event || is_ignored_signal(threads->pid, thread->signal)) && make_call_again(thread)))
		return reason_set(why, -EAGAIN, "thread %d is ending", thread->tid);
	return 0;
}

static int wait_for_threads(struct stopped_threads *threads, size_t first, struct reason *why)
{
	int err = 0;

	for (size_t i = first; i < threads->thread_nr && !err; i++) {
		int status = wait_for_trace_stop(threads->thread[i].tid, threads->begun_ns + STOP_LIMIT_NS);

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

/* After an error some were not waited for. What their stop has ended must be made again, too. */
static void take_late_stop(struct stopped_threads *threads, size_t i)
{
	int status = wait_for_trace_stop(threads->thread[i].tid, threads->begun_ns + STOP_LIMIT_NS + GRACE_NS);
	struct reason ignored;

	if (status >= 0 && WIFSTOPPED(status))
		take_stop(threads, i, status, &ignored);
}

/* Fails for one that has not stopped: it goes on when this process ends. */
static void resume_thread(const struct stopped_thread *thread)
{
	ptrace(PTRACE_DETACH, thread->tid, 0, (void *)(long)thread->signal);
}

void resume_threads(struct stopped_threads *threads)
{
	for (size_t i = threads->thread_nr; i--;)
		if (threads->thread[i].is_stopped)
			resume_thread(&threads->thread[i]);
	threads->stopped_ns = monotonic_now_ns() - threads->begun_ns;
	for (size_t i = 0; i < threads->thread_nr; i++)
		if (!threads->thread[i].is_stopped) {
			take_late_stop(threads, i);
			resume_thread(&threads->thread[i]);
		}
	free(threads->thread);
	threads->thread = NULL;
	threads->thread_alloc = 0;
}
