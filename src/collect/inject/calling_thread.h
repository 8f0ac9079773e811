/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_CALLING_THREAD_H
#define ALLOCSNAP_COLLECT_INJECT_CALLING_THREAD_H

/* Conditions for a stopped thread whose registers will be changed. Everything is read; nothing is assumed. */

#include <sys/types.h>

struct reason;
struct stopped_thread;
struct stopped_threads;

/*
 * It runs 64-bit code, is amid no restartable sequence (rseq(2)), its system calls reach the kernel (no syscall user
 * dispatch), and it has the descriptors of the process. Its seccomp filters are suspended then, until it goes on. 0; -EBUSY:
 * not at this moment; -ENOTSUP: not for good; -EPERM.
 */
int check_calling_thread(pid_t pid, const struct stopped_thread *thread, int mem_fd, struct reason *why);

/* The same for a thread that is moved to another copy of the instruction at which it is. It makes no calls there. */
int check_moved_thread(const struct stopped_thread *thread, int mem_fd, struct reason *why);

/*
 * The thread pointer of each thread in 64-bit code leads to itself, as the psABI for x86-64 has it (thread-local storage,
 * variant II): the sampler reads it. 0 or -ENOTSUP.
 */
int check_thread_pointers(const struct stopped_threads *threads, int mem_fd, struct reason *why);

#endif
