/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ADMIT_BPF_H
#define ALLOCSNAP_ADMIT_BPF_H

/*
 * Whether an event belongs to a recorded process. Probes are attached per process, and its account open when all
 * its probes are in place. If children are followed, every process hits the probes, and only a process with an account
 * is recorded.
 */

#include "maps.bpf.h"

/* NULL: no admitted process. An ended process keeps its account, and the next process with its PID does not get them. */
static __always_inline struct process *process_in(__u32 slot)
{
	struct process *process = bpf_map_lookup_elem(&processes, &slot);

	return process && !process->exit_ns ? process : NULL;
}

/* The process that had this PID at its admission. If its end was missed, the PID may have been reused. */
static __always_inline struct process *process_at(__u32 tgid)
{
	__u32 *slot = bpf_map_lookup_elem(&process_slots, &tgid);

	return slot ? process_in(*slot) : NULL;
}

static __always_inline bool process_is_of_task(const struct process *process, const struct task_struct *task)
{
	return task->group_leader->start_boottime - process->start_boottime_ns < process->start_span_ns;
}

static __always_inline struct process *find_process_of_task(struct task_struct *task)
{
	struct process *process = process_at(task->tgid);

	return process && process_is_of_task(process, task) ? process : NULL;
}

#define NO_SLOT (~0U)

/*
 * The slot of the running process. A global function: the verifier walks it once a program. It takes half a millisecond
 * for each load of a pointer from a task.
 */
__weak __noinline __u32 slot_of_current(void)
{
	struct process *process = find_process_of_task(bpf_get_current_task_btf());

	return process ? process->slot : NO_SLOT;
}

/* The running process; its memory may be of another one. */
static __always_inline struct process *own_process(void)
{
	return process_in(slot_of_current());
}

/*
 * The process whose memory this process runs in: itself, or its parent between vfork and exec. NULL if the parent
 * has left that memory by exit or exec. Events of this process go to the account of the owner.
 */
static __always_inline struct process *find_memory_owner(struct process *process)
{
	struct process *owner = process;

	if (process->memory_of)
		owner = process_at(process->memory_of);
	return owner && owner->memory == process->memory ? owner : NULL;
}

static __always_inline struct process *current_process(void)
{
	struct process *process = own_process();

	return process ? find_memory_owner(process) : NULL;
}

/* The kernel's exec count, as the account store it: never 0. */
static __always_inline __u64 exec_id_of(const struct task_struct *task)
{
	return task->self_exec_id + 1;
}

/* The state of the running thread; NULL: none yet. */
static __always_inline struct thread *current_thread(void)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
}

/* If children are followed, all processes pause together, even those that the loader does not know yet. */
extern __u64 shared_paused;
extern __u64 shared_resumed_ns;

/* Reads of the account after this call belong to the image that the program counts for: see thread.bpf.h. */
static __always_inline __u64 openness(const struct process *process)
{
	__u64 is_open = *(const volatile __u64 *)&process->is_open;

	order_memory(&process->is_open);
	return is_open;
}

/* The loader is clearing the account: programs do not count what they do to blocks now. */
static __always_inline bool is_clearing(const struct process *process)
{
	return openness(process) & ACCOUNT_CLEARING;
}

/* Whether new blocks enter the account. */
static __always_inline bool is_recording(const struct process *process)
{
	return openness(process) == ACCOUNT_OPEN && !(process->follows && shared_paused);
}

/* When placing probes began after the last gap, of all processes or of this one with its own links; 0: no gap. */
static __always_inline __u64 resumed_ns(const struct process *process)
{
	return process->follows && shared_resumed_ns > process->resumed_ns ? shared_resumed_ns : process->resumed_ns;
}

/* Wakes the loader. If the ring is full, the loader is awake already. */
static __always_inline void ring(__u32 tgid)
{
	bpf_ringbuf_output(&doorbell, &tgid, sizeof(tgid), 0);
}

#endif
