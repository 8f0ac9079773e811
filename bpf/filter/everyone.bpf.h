/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EVERYONE_BPF_H
#define ALLOCSNAP_EVERYONE_BPF_H

/*
 * Books that begin and end in the kernel, for a system-wide recording. Most processes live for a short time and hold
 * little memory. Their books end here, without work for the loader.
 */

#include "account/admit.bpf.h"
#include "account/images.bpf.h"
#include "account/sample.bpf.h"
#include "filter/rules.bpf.h"

/* The taken slots of the map `processes`. The loader takes slots and gives them back, too. */
extern __u32 slot_taken[PROCESSES_MAX];
extern __u32 next_slot;

/* Numbers of processes since the recording began. */
extern __u64 admissions_dropped; /* not recorded, because there was no room */
extern __u64 ended_small;	 /* ended before the loader saw them, with a lower peak than rules.min_bytes */
extern struct process ended_small_sum; /* sum of the books of ended_small: counters, losses and CPU time */

/* The number of slots that each user has, and that all users have. The loader updates them, too. */
extern __u32 user_slots[USERS_MAX];
extern __u32 slots_taken_nr;

static __always_inline bool user_has_share(__u32 user)
{
	__u32 taken = *(volatile __u32 *)&slots_taken_nr;

	return taken < PROCESSES_MAX &&
	       user_slots[user & (USERS_MAX - 1)] < SHARE_OF_FREE * (PROCESSES_MAX - taken);
}

static __always_inline void slot_count(__u32 user, __s32 n)
{
	__sync_fetch_and_add(&user_slots[user & (USERS_MAX - 1)], n);
	__sync_fetch_and_add(&slots_taken_nr, n);
}

#define SLOT_TRIES 256

/* Takes a slot for a user; PROCESSES_MAX: the user gets none. */
static __always_inline __u32 slot_take(__u32 user)
{
	__u32 first;

	if (!user_has_share(user))
		return PROCESSES_MAX;
	first = __sync_fetch_and_add(&next_slot, 1);
	for (__u32 i = 0; i < SLOT_TRIES; i++) {
		__u32 slot = (first + i) & (PROCESSES_MAX - 1);

		if (!slot_taken[slot] && !__sync_val_compare_and_swap(&slot_taken[slot], 0, 1)) {
			slot_count(user, 1);
			return slot;
		}
	}
	return PROCESSES_MAX;
}

static __always_inline void slot_give(__u32 slot, __u32 user)
{
	slot_count(user, -1);
	slot_taken[slot & (PROCESSES_MAX - 1)] = 0;
}

/* Whether the process may use an allocator that the loader does not know yet: nothing of it was recorded. */
static __always_inline bool may_be_unprobed(const struct process *process)
{
	return !process->is_forked && !process->memory_of &&
	       !process->counter[COUNTER_allocations] && !process->counter[COUNTER_unknown_frees];
}

static __always_inline bool is_to_be_seen(const struct process *process)
{
	__u64 peak = process->counter[COUNTER_peak_bytes];

	return (peak && peak >= rules.min_bytes) || may_be_unprobed(process);
}

/* Adds the books to ended_small_sum before they go. Most counters are 0; skipping those saves shared writes. */
static __always_inline void sum_small(const struct process *process)
{
	struct process *sum = &ended_small_sum;

	__sync_fetch_and_add(&ended_small, 1);
	__sync_fetch_and_add(&sum->cpu_ns, process->cpu_ns);
	for (int i = 0; i < COUNTER_NR; i++)
		if (process->counter[i])
			__sync_fetch_and_add(&sum->counter[i], process->counter[i]);
	for (int i = 0; i < LOSS_NR; i++)
		if (process->loss[i])
			__sync_fetch_and_add(&sum->loss[i], process->loss[i]);
}

/*
 * Ends the books of a process. Its PID may be reused at once. Its slot may be reused at once, too, unless the loader
 * has to see the books: then this wakes the loader.
 */
static __always_inline void end_books(struct process *process, __u32 tgid)
{
	__u32 slot = process->slot & (PROCESSES_MAX - 1);

	leave_blocks(process);
	bpf_map_delete_elem(&process_slots, &tgid);
	if (is_to_be_seen(process) ||
	    __sync_val_compare_and_swap(&process->owner, BOOKS_OF_KERNEL, BOOKS_OF_NOBODY)) {
		ring(tgid);
		return;
	}
	sum_small(process);
	process->image = 0;
	barrier();
	slot_give(slot, process->user);
}

/*
 * Ends the books of an older process with the same PID. That process has ended before this one began, and the program
 * at its end was missed. How it ended is unknown.
 */
static __always_inline void end_unseen(struct task_struct *task)
{
	struct process *gone = process_at(task->tgid);

	if (!gone || process_is_of_task(gone, task) || __sync_val_compare_and_swap(&gone->is_ending, 0, 1))
		return;
	__sync_fetch_and_add(&gone->loss[LOSS_ends_missed], 1);
	gone->exit_ns = task->start_time;
	end_books(gone, task->tgid);
}

static const struct process no_books;

/*
 * Begins empty books without an image for the process whose main thread is the task, or will be. Returns NULL if there
 * is no room, or if the books of an ended process with this PID are still there.
 */
static __always_inline struct process *claim_process_slot(struct task_struct *task)
{
	__u32 user = user_of(task), slot = slot_take(user), tgid = task->tgid;
	struct process *process = bpf_map_lookup_elem(&processes, &slot);

	if (!process)
		return NULL;
	bpf_map_update_elem(&processes, &slot, &no_books, BPF_ANY);
	process->tgid = tgid;
	process->slot = slot;
	process->user = user;
	process->start_boottime_ns = task->start_boottime;
	process->start_span_ns = 1;
	process->exec_id = exec_id_of(task);
	end_unseen(task);
	if (bpf_map_update_elem(&process_slots, &tgid, &slot, BPF_NOEXIST)) {
		slot_give(slot, user);
		return NULL;
	}
	return process;
}

/* The copy of a process's memory at fork: what it records of it, its child does, too. */
static __always_inline void keep_python(struct process *process, const struct process *parent)
{
	if (parent && parent->python_memory == parent->memory)
		process->python_memory = process->memory;
}

/* Gives new books their image. parent: NULL after an exec. The image is written last. */
static __always_inline void begin_first_image(struct process *process, const struct process *parent, bool shares_memory)
{
	__u64 image = __sync_fetch_and_add(&next_image, 1);

	process->memory = shares_memory ? parent->memory : image;
	keep_python(process, parent);
	process->image = image;
}

#endif
