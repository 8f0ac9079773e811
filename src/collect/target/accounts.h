/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_ACCOUNTS_H
#define ALLOCSNAP_COLLECT_TARGET_ACCOUNTS_H

/*
 * The accounting of all processes ("account") as the kernel writes it: an array that is mapped here, and a hash
 * from the PID to the slot in the array (bpf/account/admit.bpf.h). A process that has ended may still have a
 * slot when another process already has its PID.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/bpf_types.h"

struct allocsnap_bpf;
struct target;

#define ACCOUNT_NONE UINT32_MAX

/* Zeroed: not open. */
struct accounts {
	const struct allocsnap_bpf *bpf;
	struct process *process; /* PROCESSES_MAX entries; valid for slots that are taken */
};

/* 0 or a negative errno. Closing account that are not open does nothing. */
int accounts_open(struct accounts *accounts, const struct allocsnap_bpf *bpf);
void accounts_close(struct accounts *accounts);

/* Whether a process of this user (struct process) may have a slot: see SHARE_OF_FREE. */
bool accounts_user_has_share(const struct accounts *accounts, uint32_t user);

/* Gives a slot to a process that has none. 0, -EEXIST, -E2BIG (too many processes), or a negative errno. */
int accounts_begin(struct accounts *accounts, pid_t pid, const struct process *process, uint32_t *ret_slot);

/* Blocks enter from now on. Earlier counts are cleared. */
void accounts_admit_blocks(struct accounts *accounts, uint32_t slot, bool by_ret);

/*
 * accounts_mark() before the accounting is cleared, accounts_unmark() after that: see bpf/account/thread.bpf.h.
 * Marking a process that has ended does nothing.
 */
void accounts_mark(const struct accounts *accounts, uint32_t slot);
void accounts_unmark(const struct accounts *accounts, uint32_t slot);

/* See collector__ring_at(). */
bool accounts_ring_at(const struct accounts *accounts, uint32_t slot, uint64_t bytes);

/* Sets the sampling rate of the blocks that the process allocates from now on. */
void accounts_sample_at(const struct accounts *accounts, uint32_t slot, uint32_t rate);

/*
 * Whether the slot has a process that the loader has not claimed yet. If so, the caller owns the slot and gives
 * it back. The kernel side writes the image last.
 */
bool accounts_claim(struct accounts *accounts, uint32_t slot);

/* Returns the image in a slot; 0: the slot is free. */
uint64_t accounts_image(const struct accounts *accounts, uint32_t slot);

/*
 * Ends the accounting of a process that is gone when the kernel recorded no end: the kernel skipped the program
 * that should have recorded it. Another process may have the PID by now.
 */
void accounts_end_unseen(struct accounts *accounts, uint32_t slot, uint64_t now_ns);

/* Calls that gave out blocks; of pages, all that came. */
uint64_t account_allocations(const struct process *account);

/* The most bytes that were live at once. Of pages, which leave unseen, all that came. */
uint64_t account_most_bytes(const struct process *account);

/* Gives a slot back; does nothing for ACCOUNT_NONE. */
void accounts_end(struct accounts *accounts, uint32_t slot);

/* Sums of counters and losses of processes and programs that are gone. */

/* Sums of accounting that no longer exists. Zeroed: nothing. */
struct gone {
	uint64_t processes;
	uint64_t allocations, frees;
	uint64_t cpu_ns, cost_ns;
	uint64_t loss[LOSS_NR];
};

/* Adds the accounting of an image: its process has called exec, or is no longer traced. */
void gone_add(struct gone *gone, const struct process *account);

/*
 * Losses that were found while snapshots of a process were made. Some of these losses (of tracebacks, for
 * example) are found again for each snapshot: so only the growth from one snapshot to the next is summed.
 * Zeroed: no snapshot yet.
 */
struct found_losses {
	uint64_t exec_cnt; /* of the program that `last` is about */
	uint64_t last[LOSS_NR];
	uint64_t sum[LOSS_NR];
};

void found_losses_add(struct found_losses *found, uint64_t exec_cnt, const uint64_t loss[LOSS_NR]);

/* Adds a process that is no longer traced: gone_add(), plus its found losses. */
void gone_add_target(struct gone *gone, const struct target *target);

/*
 * For a process that has ended and of which nothing was counted: whether that proves nothing, because its
 * mappings were not seen or its files could no longer be opened.
 */
bool target_is_unprobed(const struct target *target);

#endif
