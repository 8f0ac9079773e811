// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/calling_thread.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/inject/stopped_threads.h"
#include "collect/process/proc.h"

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
