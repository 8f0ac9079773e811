/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_INJECT_RULES_H
#define ALLOCSNAP_COLLECT_INJECT_INJECT_RULES_H

/* Reasons not to inject, from texts of the kernel alone: nothing is opened here. 0, or an error as in inject.h. */

#include <sys/types.h>

struct reason;

/* Texts of the kernel about itself; "" is a file that does not exist. */
struct kernel_texts {
	const char *release;	  /* of uname(2) */
	const char *lockdown;	  /* /sys/kernel/security/lockdown */
	const char *selinux;	  /* /sys/fs/selinux/enforce */
	const char *ptrace_scope; /* /proc/sys/kernel/yama/ptrace_scope */
};

/* Old and hardened kernels. */
int judge_kernel(const struct kernel_texts *kernel, struct reason *why);

/* status: the text of /proc/PID/status. */
int judge_target(pid_t pid, const char *status, struct reason *why);

#endif
