/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_INJECT_RULES_H
#define ALLOCSNAP_COLLECT_INJECT_INJECT_RULES_H

/* Reasons not to inject, from texts of the kernel alone: nothing is opened here. 0, or an error as in inject.h. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reason;
struct target_maps;

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

/* The soft limit in a line of the text of /proc/PID/limits; UINT64_MAX: unlimited. False: it is not there. */
bool limit_of_text(const char *limits, const char *name, uint64_t *ret);

/* Mappings that a process would get in addition, at most. */
struct mappings_needed {
	uint64_t nr;
	uint64_t bytes;	     /* of addresses */
	uint64_t data_bytes; /* of those that are private and writable */
};

/*
 * Whether there is room for them. max_map_count: the text of /proc/sys/vm/max_map_count; limits: of /proc/PID/limits.
 * -EAGAIN: there is none now; -EIO: the texts do not say.
 */
int judge_room(const struct target_maps *maps, const struct mappings_needed *needed, const char *max_map_count,
	       const char *limits, struct reason *why);

#endif
