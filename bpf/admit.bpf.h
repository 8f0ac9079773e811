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

static __always_inline struct process *process_of(__u32 tgid)
{
	__u32 *slot = bpf_map_lookup_elem(&process_slots, &tgid);

	return slot ? process_in(*slot) : NULL;
}

/* The books of the memory that it runs in: of its parent, between vfork and exec. */
static __always_inline struct process *books_of(struct process *process)
{
	return process->memory_of ? process_of(process->memory_of) : process;
}

static __always_inline struct process *current_process(void)
{
	struct process *process = process_of(bpf_get_current_pid_tgid() >> 32);

	return process ? books_of(process) : NULL;
}

/*
 * The same, where the thread's storage is at hand: what it was last time is found in an array, which costs
 * a twentieth of a look for the PID. An image is never used twice; exec forgets it.
 */
static __always_inline struct process *process_of_thread(struct thread *thread)
{
	struct process *process;
	__u32 *slot, tgid;

	if (thread && thread->image) {
		process = process_in(thread->slot);
		if (process && process->image == thread->image)
			return process;
	}
	tgid = bpf_get_current_pid_tgid() >> 32;
	slot = bpf_map_lookup_elem(&process_slots, &tgid);
	process = slot ? process_in(*slot) : NULL;
	if (process && process->memory_of) {
		tgid = process->memory_of;
		slot = bpf_map_lookup_elem(&process_slots, &tgid);
		process = slot ? process_in(*slot) : NULL;
	}
	if (process && thread) {
		thread->slot = *slot;
		thread->image = process->image;
	}
	return process;
}

/* Of the thread that runs; NULL where there is none yet. */
static __always_inline struct thread *current_thread(void)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
}

/*
 * Made where its process has books. NULL: there is no memory, or it has none, which is looked at first:
 * who is not recorded is let go at once.
 */
static __always_inline struct thread *own_thread(bool *ret_is_bystander)
{
	struct thread *thread = current_thread();

	*ret_is_bystander = !thread && !current_process();
	if (thread || *ret_is_bystander)
		return thread;
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Where children are followed they pause together, also those that the loader does not know yet. */
extern __u64 everybody_paused;
extern __u64 everybody_resumed_ns;

/* Whether blocks enter. */
static __always_inline bool is_recording(const struct process *process)
{
	return process->is_open && !(process->follows && everybody_paused);
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
