/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TRIALS_H
#define ALLOCSNAP_COLLECT_TRIALS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What this kernel lets us do, by doing it to ourselves for a moment. Each is 0 or what the kernel
 * said, a negative errno.
 */
int trial_load(void);	      /* a program */
int trial_uprobe(void);	      /* a perf uprobe on a function of ours */
int trial_uretprobe(void);    /* the same, on its return */
int trial_uprobe_multi(void); /* many in one link */
int trial_uprobe_session(void);

/* A perf uprobe in a file, of the calling thread's: a descriptor, or a negative errno. */
int trial_open_event(const char *path, uint64_t offset, bool is_return);

/*
 * In a child of ours, -EFAULT where it does not survive: a forked child of its own comes to a probed nop of
 * five bytes (nop5.h), which newer kernels than have links of many turn into a call.
 */
int trial_nop5(void);

/*
 * From 6.11 on a return probe is a system call of the process itself (x86-64, uretprobe). -ENOSYS: not on this
 * kernel; -EFAULT: filters of system calls (seccomp) see it, and may end the process.
 */
int trial_return_call(void);

/* A link, and whether its pid is the process: -EXDEV where it is one thread. Starts a thread and joins it. */
int trial_pid_of_link(void);

#endif
