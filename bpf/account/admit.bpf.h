/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ADMIT_BPF_H
#define ALLOCSNAP_ADMIT_BPF_H

/*
 * What we look at. Probes are attached per process; its books open when all are in place. Where
 * children are followed, probes are hit by everybody, and only who has books is recorded.
 */

#include "maps.bpf.h"

/* NULL: not admitted. One that has ended keeps its books from whoever gets its pid next. */
static __always_inline struct process *process_in(__u32 slot)
{
	struct process *process = bpf_map_lookup_elem(&processes, &slot);

	return process && !process->exit_ns ? process : NULL;
}

/* Which had this PID when it was admitted: its end may have been missed, and the PID be another's. */
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

/*
 * The books of the memory that it runs in: of its parent, between vfork and exec. NULL where the parent has
 * left that memory, by its end or an exec.
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
	struct process *process = find_process_of_task(bpf_get_current_task_btf());

	return process ? find_memory_owner(process) : NULL;
}

/* The kernel's count of execs, as books have it. */
static __always_inline __u64 exec_id_of(const struct task_struct *task)
{
	return task->self_exec_id + 1;
}

/* Of the thread that runs; NULL where there is none yet. */
static __always_inline struct thread *current_thread(void)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
}

/* Where children are followed they pause together, also those that the loader does not know yet. */
extern __u64 everybody_paused;
extern __u64 everybody_resumed_ns;

/* What a program reads of the books after this is of the image that it counts for: see images.bpf.h. */
static __always_inline __u64 openness(const struct process *process)
{
	__u64 is_open = *(const volatile __u64 *)&process->is_open;

	barrier();
	return is_open;
}

/* The books are being cleared: what programs do to blocks now is not counted. */
static __always_inline bool is_clearing(const struct process *process)
{
	return openness(process) & BOOKS_CLEARING;
}

/* Whether blocks enter. */
static __always_inline bool is_recording(const struct process *process)
{
	return openness(process) == BOOKS_OPEN && !(process->follows && everybody_paused);
}

/* When probes began to be placed after the last gap; 0: there was none. */
static __always_inline __u64 resumed_ns(const struct process *process)
{
	return process->follows ? everybody_resumed_ns : process->resumed_ns;
}

/* Wakes the loader. A full ring has been heard already. */
static __always_inline void ring(__u32 tgid)
{
	bpf_ringbuf_output(&doorbell, &tgid, sizeof(tgid), 0);
}

#endif
