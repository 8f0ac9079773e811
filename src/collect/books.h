/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BOOKS_H
#define ALLOCSNAP_COLLECT_BOOKS_H

/*
 * The books of all processes as the kernel writes them: an array that is mapped here, and a hash that
 * says which process has which slot of it (bpf/admit.bpf.h).
 */

#include <stdbool.h>
#include <sys/types.h>

#include "bpf_types.h"
#include "collect/drain.h"

struct allocsnap_bpf;

/* Zeroed: not open. */
struct books {
	const struct allocsnap_bpf *bpf;
	struct process *process; /* PROCESSES_MAX */
	struct map_copy slots;	 /* scratch */
};

/* 0 or a negative errno. Closing one that is not open does nothing. */
int books_open(struct books *books, const struct allocsnap_bpf *bpf);
void books_close(struct books *books);

/* Those of a process, as they are now; false: it has none. */
bool books_read(const struct books *books, pid_t pid, struct process *ret);

/* See collector__ring_at(). */
bool books_ring_at(const struct books *books, pid_t pid, uint64_t bytes);

/* Gives it a slot if it has none. 0, -E2BIG: too many processes, or a negative errno. */
int books_write(struct books *books, pid_t pid, const struct process *process);

/* Nothing where it has none. */
void books_remove(struct books *books, pid_t pid);

/* All: tgid → struct process. 0 or a negative errno. */
int books_read_all(struct books *books, struct map_copy *ret);

#endif
