// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/stopped_threads.h"

#include <elf.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "inject/remote_call.h"
#include "inject/target_maps.h"
#include "process/proc.h"

#define STOP_LIMIT_NS (SECOND_NS / 2)
#define GRACE_NS (SECOND_NS / 10) /* for one that has not stopped, while the others go on */
#define ERESTARTNOHAND 514 /* include/linux/errno.h of the kernel */

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

/* The state and the flags in /proc/PID/task/TID/stat; 0: it has ended. */
static char thread_state(pid_t pid, pid_t tid, unsigned int *ret_flags)
{
	char path[64], text[512], state = 0;
	const char *at;
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
	return at && sscanf(at + 1, " %c %*d %*d %*d %*d %*d %u", &state, ret_flags) == 2 ? state : 0;
}

static bool has_thread_ended(pid_t pid, pid_t tid)
{
	unsigned int flags;
	char state = thread_state(pid, tid, &flags);

	return !state || state == 'Z' || state == 'X';
}

/* ---- threads of the kernel in the process ---- */

#define PF_USER_WORKER 0x4000 /* include/linux/sched.h */

/*
 * Workers of io_uring and vhost are in the list of threads, never run code of the program, and have registers that mean
 * nothing. A stop would end what they do with an error.
 */
static bool is_worker(pid_t pid, pid_t tid)
{
	unsigned int flags = 0;

	return thread_state(pid, tid, &flags) && flags & PF_USER_WORKER;
}

static int compare_tids(const void *a, const void *b)
{
	return (*(const pid_t *)a > *(const pid_t *)b) - (*(const pid_t *)a < *(const pid_t *)b);
}

/* Before any thread is stopped: which of them run code of the program. Threads that begin later are asked one by one. */
static int find_plain_threads(struct stopped_threads *threads)
{
	DIR *dir = proc_open_threads(threads->pid);
	int err = 0;
	pid_t tid;

	while (!err && (tid = proc_next_thread(dir)))
		if (!is_worker(threads->pid, tid))
			err = array_push(threads, plain, tid);
	if (dir)
		closedir(dir);
	if (threads->plain_nr)
		qsort(threads->plain, threads->plain_nr, sizeof(*threads->plain), compare_tids);
	return err;
}

static bool is_plain_thread(const struct stopped_threads *threads, pid_t tid)
{
	return (threads->plain_nr &&
		bsearch(&tid, threads->plain, threads->plain_nr, sizeof(*threads->plain), compare_tids)) ||
	       !is_worker(threads->pid, tid);
}

/* ---- stopping ---- */

static int seize_thread(struct stopped_threads *threads, pid_t tid, struct reason *why)
{
	uint64_t tracer = 0;
	int err;

	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD)) {
		err = -errno;
		if (err == -ESRCH || has_thread_ended(threads->pid, tid))
			return 0;
		if (!proc_status(tid, "TracerPid", &tracer) && tracer)
			return reason_set(why, -EAGAIN, "process %d traces thread %d (a debugger, or strace)", (int)tracer, tid);
		return reason_set(why, err == -EPERM ? -EPERM : -EAGAIN, "thread %d cannot be stopped: %s", tid, strerror(-err));
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
	DIR *dir = proc_open_threads(threads->pid);
	bool has_leader = false;
	int err = 0;
	pid_t tid;

	if (!dir)
		return reason_set(why, -ESRCH, "process %d has ended", threads->pid);
	while (!err && (tid = proc_next_thread(dir))) {
		++*listed_nr;
		if (array_any(known, i, threads->thread[i].tid == tid) || !is_plain_thread(threads, tid))
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
 * handlers need not expect. These get the number by which the kernel makes a call again, unless a handler runs first:
 * then it is EINTR. Their timeouts begin anew.
 */
static int make_call_again(struct stopped_thread *thread)
{
	struct user_regs_struct *registers = &thread->registers;
	enum call_insn insn;

	if ((long)registers->orig_rax < 0 || (int)registers->rax != -EINTR)
		return 0;
	insn = call_insn_of(thread);
	if ((insn != CALL_SYSCALL && insn != CALL_INT80) || is_close(insn, registers->orig_rax) ||
	    (insn == CALL_SYSCALL && (long)registers->rax != -EINTR))
		return 0;
	registers->rax = -ERESTARTNOHAND;
	return set_thread_registers(thread);
}

/* A thread of a stopped process (SIGSTOP) would need to be stopped anew. */
static int take_stop(struct stopped_threads *threads, size_t i, int status, struct reason *why)
{
	struct stopped_thread *thread = &threads->thread[i];

	thread->is_stopped = true;
	if (WSTOPSIG(status) != SIGTRAP)
		return reason_set(why, -EAGAIN, "process %d is stopped", threads->pid);
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->registers) || make_call_again(thread))
		return reason_set(why, -EAGAIN, "thread %d is ending", thread->tid);
	return 0;
}

/*
 * A signal that was on its way is delivered first, up to its handler: the kernel would drop it if this process were killed
 * while the thread is stopped for it. That stop has used up the request to stop.
 */
static int wait_for_event_stop(pid_t tid, uint64_t until_ns)
{
	int status;

	for (;;) {
		status = wait_for_trace_stop(tid, until_ns);
		if (status < 0 || !WIFSTOPPED(status) || status >> 16)
			return status;
		if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) || ptrace(PTRACE_CONT, tid, 0, (void *)(long)WSTOPSIG(status)))
			return -errno;
	}
}

/* Waits for all, also if one does not stop: the others must go on first, then. */
static int wait_for_threads(struct stopped_threads *threads, size_t first, struct reason *why)
{
	int err = 0;

	for (size_t i = first; i < threads->thread_nr; i++) {
		int status = wait_for_event_stop(threads->thread[i].tid, threads->begun_ns + STOP_LIMIT_NS);

		if (status == -ETIMEDOUT)
			err = reason_set(why, -EAGAIN, "thread %d does not stop: it waits in the kernel (vfork, a disk)",
					 threads->thread[i].tid);
		else if (status < 0 || !WIFSTOPPED(status)) /* it has ended */
			threads->thread[i--] = threads->thread[--threads->thread_nr];
		else
			err = take_stop(threads, i, status, why) ?: err;
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
		if (monotonic_now_ns() <= threads->begun_ns + STOP_LIMIT_NS)
			continue;
		if (proc_is_ending(threads->pid))
			return reason_set(why, -ESRCH, "process %d has ended", threads->pid);
		return reason_set(why, -EAGAIN, "threads of process %d begin and end too fast", threads->pid);
	}
}

int stop_threads(pid_t pid, struct stopped_threads *ret, struct reason *why)
{
	int err;

	*ret = (struct stopped_threads){ .pid = pid };
	err = find_plain_threads(ret);
	ret->begun_ns = monotonic_now_ns();
	err = err ?: stop_all_threads(ret, why);
	if (!err && !ret->thread_nr)
		err = reason_set(why, -ESRCH, "process %d has ended", pid);
	if (err)
		resume_threads(ret);
	return err;
}

/* ---- from call to call ---- */

#define RUN_SLICE_NS (SECOND_NS / 10)

static int wait_while_it_runs(pid_t tid, uint64_t until_ns)
{
	int status = -ETIMEDOUT;

	while (status == -ETIMEDOUT && !tracer_renew() && monotonic_now_ns() < until_ns)
		status = wait_for_trace_stop(tid, monotonic_now_ns() + RUN_SLICE_NS);
	return status;
}

/*
 * pymalloc notes its arenas in a tree. Two of its nodes come with the first arena, from PyMem_RawCalloc(): so large that glibc
 * gives each one a mapping. In the call for the latter one, hooks in the raw domain no longer see a part of an allocation.
 */
#define ARENA_NODES 2
#define ARENA_NODE_LEAST (UINT64_C(128) << 10)

struct call_watch {
	uint64_t arena_bytes;
	unsigned int nodes_left; /* that an arena is still to get */
	bool is_wanted; /* the call that the thread is in */
};

static bool is_for_memory(uint64_t number)
{
	return number == SYS_brk || number == SYS_mmap || number == SYS_munmap || number == SYS_mremap || number == SYS_madvise;
}

static bool is_wanted_call(struct call_watch *watch, uint64_t number, uint64_t bytes)
{
	if (number == SYS_mmap && bytes == watch->arena_bytes)
		watch->nodes_left = ARENA_NODES;
	else if (number == SYS_mmap && bytes > ARENA_NODE_LEAST && watch->nodes_left)
		return !--watch->nodes_left;
	return !is_for_memory(number);
}

static bool has_made_call(pid_t tid, struct call_watch *watch)
{
	struct __ptrace_syscall_info info = {};
	bool has_made;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) < 0)
		return false;
	has_made = info.op == PTRACE_SYSCALL_INFO_EXIT && watch->is_wanted;
	watch->is_wanted = info.op == PTRACE_SYSCALL_INFO_ENTRY && is_wanted_call(watch, info.entry.nr, info.entry.args[1]);
	return has_made;
}

/* Signals reach it as ever. The status of the stop, or -errno. */
static int run_through_calls(pid_t tid, uint64_t arena_bytes, uint64_t until_ns)
{
	struct call_watch watch = { .arena_bytes = arena_bytes };
	int status, signal = 0;

	do {
		if (ptrace(PTRACE_SYSCALL, tid, 0, (void *)(long)signal))
			return -errno;
		status = wait_while_it_runs(tid, until_ns);
		signal = status >= 0 && status >> 8 != (SIGTRAP | 0x80) ? WSTOPSIG(status) : 0;
	} while (status >= 0 && WIFSTOPPED(status) && !(status >> 16) && (signal || !has_made_call(tid, &watch)));
	return status;
}

int run_to_next_call(struct stopped_threads *threads, uint64_t arena_bytes, uint64_t until_ns, struct reason *why)
{
	struct stopped_thread *thread = &threads->thread[0];
	bool is_late;
	int status;

	if (threads->thread_nr != 1)
		return reason_set(why, -EAGAIN, "it has other threads already");
	thread->is_stopped = false;
	status = run_through_calls(thread->tid, arena_bytes, until_ns);
	is_late = status == -ETIMEDOUT;
	if (is_late || (status >= 0 && WIFSTOPPED(status) && !(status >> 16))) {
		bool is_asked = !ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0) &&
				(is_late || !ptrace(PTRACE_CONT, thread->tid, 0, 0));

		status = is_asked ? wait_for_event_stop(thread->tid, monotonic_now_ns() + STOP_LIMIT_NS) : -errno;
	}
	if (status == -ETIMEDOUT)
		return reason_set(why, -EAGAIN, "thread %d does not stop: it waits in the kernel", thread->tid);
	if (status < 0 || !WIFSTOPPED(status)) {
		threads->thread_nr = 0;
		return reason_set(why, -ESRCH, "process %d has ended", threads->pid);
	}
	return take_stop(threads, 0, status, why) ?: is_late ? -EAGAIN : 0;
}

int stop_new_threads(struct stopped_threads *threads, struct reason *why)
{
	threads->begun_ns = monotonic_now_ns();
	return stop_all_threads(threads, why);
}

/* A call that so late a stop has ended must be made again, too. */
static void take_late_stop(struct stopped_threads *threads, size_t i)
{
	int status = wait_for_event_stop(threads->thread[i].tid, threads->begun_ns + STOP_LIMIT_NS + GRACE_NS);
	struct reason ignored;

	if (status >= 0 && WIFSTOPPED(status))
		take_stop(threads, i, status, &ignored);
}

/* Fails for one that has not stopped: it goes on when this process ends. */
static void resume_thread(const struct stopped_thread *thread)
{
	ptrace(PTRACE_DETACH, thread->tid, 0, 0);
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
	free(threads->plain);
	threads->thread = NULL;
	threads->plain = NULL;
}

/* ---- stack words ---- */

#define STACK_MAX (8u << 20)
#define STACK_SEARCH_MAX (1u << 20) /* in memory that is more than a stack */
#define XSTATE_MAX (16u << 10) /* of vector registers */

/* Words behind rip in struct sigcontext, as the kernel writes them: the flags, of which one is always set, and cs and ss. */
static bool is_in_signal_frame(int mem_fd, uint64_t rip_at)
{
	uint64_t word[2];

	return pread(mem_fd, word, sizeof(word), rip_at + 8) == sizeof(word) && word[0] >> 32 == 0 && word[0] & 2 &&
	       (word[1] & 0xffff) == 0x33 && word[1] >> 48 == 0x2b;
}

bool find_in_memory(int mem_fd, uint64_t at, uint64_t end, const struct stack_search *search)
{
	uint64_t word[512];

	while (at < end) {
		uint64_t left = end - at;
		ssize_t bytes = pread(mem_fd, word, left < sizeof(word) ? left : sizeof(word), at);

		if (bytes < (ssize_t)sizeof(*word))
			return false;
		for (size_t i = 0; i < bytes / sizeof(*word); i++)
			if (search->is_wanted(word[i], search->context) &&
			    (!search->in_frames ||
			     (search->is_pointer && search->is_pointer(word[i], search->context)) ||
			     is_in_signal_frame(mem_fd, at + i * sizeof(*word))))
				return true;
		at += bytes / sizeof(*word) * sizeof(*word);
	}
	return false;
}

bool find_on_stacks(const struct stopped_threads *threads, const struct target_maps *maps, int mem_fd,
		    const struct stack_search *search, pid_t *ret_tid)
{
	for (size_t i = 0; i < threads->thread_nr; i++) {
		uint64_t rsp = threads->thread[i].registers.rsp, at = rsp & ~UINT64_C(7), end;
		const struct maps_line *line = target_maps_find(maps, rsp);

		if (!line)
			continue;
		end = line->end - at <= STACK_MAX ? line->end : at + STACK_SEARCH_MAX;
		if (!find_in_memory(mem_fd, at, end, search))
			continue;
		*ret_tid = threads->thread[i].tid;
		return true;
	}
	return false;
}

static bool is_any_wanted(const uint64_t *word, size_t nr, const struct stack_search *search)
{
	return array_any(nr, i, search->is_wanted(word[i], search->context));
}

bool find_in_registers(const struct stopped_thread *thread, const struct stack_search *search)
{
	uint64_t word[XSTATE_MAX / sizeof(uint64_t)], general[sizeof(thread->registers) / sizeof(uint64_t)];
	struct iovec piece = { word, sizeof(word) };

	memcpy(general, &thread->registers, sizeof(general));
	if (is_any_wanted(general, ARRAY_SIZE(general), search))
		return true;
	return !ptrace(PTRACE_GETREGSET, thread->tid, (void *)NT_X86_XSTATE, &piece) &&
	       is_any_wanted(word, piece.iov_len / sizeof(*word), search);
}

/* ---- calling thread ---- */

#define CODE_OF_64_BITS 0x33 /* __USER_CS */

static bool runs_64_bits(const struct stopped_thread *thread)
{
	return (thread->registers.cs & 0xffff) == CODE_OF_64_BITS;
}

/* ---- restartable sequences ---- */

/* struct rseq and struct rseq_cs of linux/rseq.h */
#define RSEQ_CS_AT 8

struct sequence {
	uint32_t version, flags;
	uint64_t start, bytes, abort;
};

/*
 * The kernel aborts an open sequence on the way back to the program, if the thread is still in it then. A thread that is
 * elsewhere meanwhile would go on in it as if nothing had happened. Sequences that were left stay in `rseq_cs`.
 */
static int check_no_open_sequence(const struct stopped_thread *thread, int mem_fd, struct reason *why)
{
	struct __ptrace_rseq_configuration registered = {};
	struct sequence sequence;
	uint64_t at = 0;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof(registered), &registered) < 0)
		return errno == EIO ? 0 : reason_set(why, -EBUSY, "thread %d is ending", thread->tid); /* EIO: a kernel without */
	if (!registered.rseq_abi_pointer)
		return 0;
	if (pread(mem_fd, &at, sizeof(at), registered.rseq_abi_pointer + RSEQ_CS_AT) != sizeof(at))
		return reason_set(why, -ENOTSUP, "thread %d has unmapped its restartable sequences", thread->tid);
	if (!at || (pread(mem_fd, &sequence, sizeof(sequence), at) == sizeof(sequence) &&
		    thread->registers.rip - sequence.start >= sequence.bytes))
		return 0;
	return reason_set(why, -EBUSY, "thread %d is amid a restartable sequence (rseq), again and again", thread->tid);
}

/* ---- syscall user dispatch ---- */

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211 /* Linux 6.4 */
#endif

struct dispatch {
	uint64_t mode, selector, offset, bytes;
};

static int check_no_dispatch(const struct stopped_thread *thread, struct reason *why)
{
	struct dispatch dispatch = {};

	if (ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, thread->tid, sizeof(dispatch), &dispatch))
		return reason_set(why, -ENOTSUP,
				  "this kernel does not show whether thread %d handles its system calls itself",
				  thread->tid);
	if (dispatch.mode)
		return reason_set(why, -ENOTSUP, "thread %d handles its system calls itself (syscall user dispatch)", thread->tid);
	return 0;
}

/* ---- the whole ---- */

int check_moved_thread(const struct stopped_thread *thread, int mem_fd, struct reason *why)
{
	if (!runs_64_bits(thread))
		return reason_set(why, -EBUSY, "thread %d runs 32-bit code", thread->tid);
	return check_no_open_sequence(thread, mem_fd, why);
}

/* ---- what the calls go through ---- */

/* Its filter would see the calls that the thread makes for us, if it could not be suspended. */
static int suspend_seccomp(const struct stopped_thread *thread, struct reason *why)
{
	uint64_t mode = 0;

	if (!ptrace(PTRACE_SETOPTIONS, thread->tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP) ||
	    (!proc_status(thread->tid, "Seccomp", &mode) && !mode))
		return 0;
	return reason_set(why, -EPERM, "thread %d is under seccomp: suspending that needs CAP_SYS_ADMIN", thread->tid);
}

/* The memory file must be found in the descriptors of the process, which a thread may have left (unshare(2)). */
static int check_descriptors(pid_t pid, const struct stopped_thread *thread, struct reason *why)
{
	if (thread->tid == pid || !syscall(SYS_kcmp, pid, thread->tid, KCMP_FILES, 0, 0))
		return 0;
	return reason_set(why, -ENOTSUP, "thread %d has descriptors of its own (CLONE_FILES)", thread->tid);
}

int check_calling_thread(pid_t pid, const struct stopped_thread *thread, int mem_fd, struct reason *why)
{
	return check_moved_thread(thread, mem_fd, why) ?: check_no_dispatch(thread, why) ?:
	       check_descriptors(pid, thread, why) ?: suspend_seccomp(thread, why);
}

int check_thread_pointers(const struct stopped_threads *threads, int mem_fd, struct reason *why)
{
	for (size_t i = 0; i < threads->thread_nr; i++) {
		const struct stopped_thread *thread = &threads->thread[i];
		uint64_t at = thread->registers.fs_base, self;

		if (runs_64_bits(thread) && (!at || pread(mem_fd, &self, sizeof(self), at) != sizeof(self) || self != at))
			return reason_set(why, -ENOTSUP, "thread %d has no thread pointer, which the sampler needs", thread->tid);
	}
	return 0;
}
