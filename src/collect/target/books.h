/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BOOKS_H
#define ALLOCSNAP_COLLECT_BOOKS_H

/*
 * The books of all processes as the kernel writes them: an array that is mapped here, and a hash that
 * says which process has which slot of it (bpf/account/admit.bpf.h). A process that has ended may have a slot
 * still when its PID is another's.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "shared/bpf_types.h"

struct allocsnap_bpf;

#define BOOKS_NONE UINT32_MAX

/* Zeroed: not open. */
struct books {
	const struct allocsnap_bpf *bpf;
	struct process *process; /* PROCESSES_MAX; of slots that are taken */
};

/* 0 or a negative errno. Closing one that is not open does nothing. */
int books_open(struct books *books, const struct allocsnap_bpf *bpf);
void books_close(struct books *books);

/* Whether a process of that user (struct process) may have a slot: see SHARE_OF_FREE. */
bool books_user_has_share(const struct books *books, uint32_t user);

/* Gives a process that has none a slot. 0, -EEXIST, -E2BIG: too many processes, or a negative errno. */
int books_begin(struct books *books, pid_t pid, const struct process *process, uint32_t *ret_slot);

/* Blocks enter from now on; what was counted before is forgotten. */
void books_let_in(struct books *books, uint32_t slot, bool by_ret);

/* Before the books are cleared and after that, see bpf/account/images.bpf.h; nothing for a process that has ended. */
void books_mark(const struct books *books, uint32_t slot);
void books_take_mark(const struct books *books, uint32_t slot);

/* See collector__ring_at(). */
bool books_ring_at(const struct books *books, uint32_t slot, uint64_t bytes);

/*
 * Whether there is a process in a slot that nobody has seen yet; it is the caller's to give back then.
 * begin_books() of the kernel's side writes the image last.
 */
bool books_claim(struct books *books, uint32_t slot);

/* The image in a slot; 0: it is nobody's. */
uint64_t books_image(const struct books *books, uint32_t slot);

/*
 * For a process that is gone, where the books tell of no end: the kernel passed over the program that would
 * have told. Its PID may be another process's.
 */
void books_end_unseen(struct books *books, uint32_t slot, uint64_t now_ns);

/* Gives a slot back; nothing for BOOKS_NONE. */
void books_end(struct books *books, uint32_t slot);

#endif
