/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_TARGET_MAPS_H
#define ALLOCSNAP_INJECT_TARGET_MAPS_H

/* All mappings of a process, sorted by address. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/proc.h"

struct reason;
struct target_maps;

struct target_maps {
	struct maps_line *line;
	size_t line_nr, line_alloc;
	char *text; /* of the lines' paths */
};

/* 0 or -errno; -ESRCH: the process has ended, or has no memory; -E2BIG: the text is longer than MAPS_TEXT_MAX. */
int target_maps_read(pid_t pid, struct target_maps *ret);
void target_maps_release(struct target_maps *maps);

/*
 * Lists the files of code: the first executable mapping of each, in the order of addresses. They point into maps; the
 * caller frees *ret. 0 or -ENOMEM.
 */
int target_maps_code_files(const struct target_maps *maps, const struct maps_line ***ret, size_t *ret_nr);

/* The mapping that holds an address, or NULL. */
const struct maps_line *target_maps_find(const struct target_maps *maps, uint64_t address);

/* The address where an executable mapping of the file has this offset. 0: none. *ret_nr: how many there are. */
uint64_t target_maps_code(const struct target_maps *maps, uint64_t dev, uint64_t inode, uint64_t offset, size_t *ret_nr);

/*
 * Room for `bytes`, less than 2 GiB from all of [low, high), where neither the stack nor the break will grow. 0: no
 * such room.
 */
uint64_t target_maps_gap(const struct target_maps *maps, pid_t pid, uint64_t low, uint64_t high, uint64_t bytes);

/* The same as near to an address as possible, however far. */
uint64_t target_maps_room(const struct target_maps *maps, pid_t pid, uint64_t near, uint64_t bytes);

/* Whether nothing is mapped there. */
bool target_maps_are_free(const struct target_maps *maps, uint64_t start, uint64_t end);

/* Enters a mapping that will be made. 0 or -ENOMEM. */
int target_maps_reserve(struct target_maps *maps, uint64_t start, uint64_t bytes);

/* Reasons not to inject, from texts of the kernel alone: nothing is opened here. 0, or an error as in inject.h. */

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

/* Mappings that a process would get in addition, at most. */
struct mappings_needed {
	uint64_t nr;
	uint64_t bytes;	     /* of addresses */
	uint64_t data_bytes; /* of those that are private and writable */
};

/*
 * Whether there is room for them. max_map_count: the text of /proc/sys/vm/max_map_count; limits: of /proc/PID/limits.
 * -EAGAIN: no room now; -EIO: the texts do not say.
 */
int judge_room(const struct target_maps *maps, const struct mappings_needed *needed, const char *max_map_count,
	       const char *limits, struct reason *why);

#endif
