/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_FEATURE_PROBES_H
#define ALLOCSNAP_COLLECT_PROBE_FEATURE_PROBES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Tests what this kernel allows, by briefly doing it to the own process. Each returns 0 or the kernel's negative
 * errno.
 */
int trial_load(void);	      /* a BPF program */
int trial_uprobe(void);	      /* a perf uprobe on a function of allocsnap */
int trial_uretprobe(void);    /* the same on its return */
int trial_uprobe_multi(void); /* many probes in one link */
int trial_uprobe_session(void);

/* A program that reads the kernel's memory: lockdown can forbid that, with -EINVAL. */
int trial_read_kernel(void);

/* A program at a function of the kernel (BPF_TRACE_…). -ESRCH: there is no such function. */
int trial_trace(const char *function, uint32_t attach_type);

/* Loads a program that does nothing. A descriptor, or a negative errno. */
int trial_load_as(uint32_t attach_type);

/* Opens a perf uprobe in a file for the calling thread. A descriptor, or a negative errno. */
int trial_open_event(const char *path, uint64_t offset, bool is_return);

/*
 * Runs in a child; -EFAULT if it does not survive. The child forks another child, which executes a probed
 * five-byte nop (placement.h). Kernels newer than the first ones with links of many probes replace this nop by a call.
 */
int trial_nop5(void);

/*
 * Tries any system call. -ENOSYS: it does not exist; -EFAULT: filters see it; -EACCES: a filter of this process does.
 */
int trial_filtered_call(long call);

/*
 * From 6.11 on a return probe is a system call of the process itself (x86-64, uretprobe). -ENOSYS: not on this
 * kernel; -EFAULT: system call filters (seccomp) see it, and may kill the process.
 */
int trial_return_call(void);

/* Whether the kernel has a function or a type of this name (BTF_KIND_…). True if that is not known. */
bool kernel_has(const char *name, uint32_t kind);

/*
 * Tests whether the pid of a link means the process: -EXDEV if it means one thread. Starts a thread and joins it.
 */
int trial_pid_of_link(void);

#endif
