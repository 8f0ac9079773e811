/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_TARGETS_H
#define ALLOCSNAP_COLLECT_RECORDING_TARGETS_H

/* All recorded processes, by their PID and by the slot of their accounting. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/target/accounting.h"
#include "collect/target/target.h"

/* A process that began in the kernel and has no target yet. */
struct new_child {
	uint64_t forked_ns;
	uint64_t admitted_ns; /* if an exec admitted it; otherwise 0 */
	uint64_t began_ns;    /* when the program that was admitted began; otherwise forked_ns */
	uint32_t slot;
	pid_t pid;
};

struct targets {
	struct target **target;
	size_t target_nr, target_alloc;
	struct books books;
	struct target *by_slot[PROCESSES_MAX];
	struct target **by_pid; /* open addressing; by_pid_nr is a power of two, or 0 */
	size_t by_pid_nr;
	uint64_t codes_left; /* code objects in the kernel of Pythons that are gone */
	struct new_child *new_child; /* PROCESSES_MAX entries, for temporary use */
};

/* 0 or a negative errno. Releasing closes the accounting; the targets must have been taken out. */
int targets_open(struct targets *targets, const struct allocsnap_bpf *bpf);
void targets_release(struct targets *targets);

/* A process's accounting as it is now: the kernel writes it. */
const struct process *collector_books_of(const struct targets *targets, uint32_t slot);

/* NULL: not traced. */
struct target *find_target(const struct targets *targets, pid_t pid);

/* Takes ownership of a target that has a slot if it returns 0; otherwise -ENOMEM. */
int targets_add(struct targets *targets, struct target *target);

/* Gives the ownership of target i back. */
struct target *targets_take_out(struct targets *targets, size_t i);

/* How many running processes have probes of their own beside shared ones. */
unsigned int targets_beside_nr(const struct targets *targets);

/* Closes a target that is not in target[], with its accounting and its own probes. */
void targets_close(struct targets *targets, struct target *target);

#endif
