/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ADMIT_BPF_H
#define ALLOCSNAP_ADMIT_BPF_H

/*
 * What we look at. Probes are attached per process; its books open when all are in place. Where
 * children are followed, probes are hit by everybody, and only who has books is recorded.
 */

#include "maps.bpf.h"

/* NULL: not admitted. One that has ended keeps its books from whoever gets its pid next. */
static __always_inline struct process *process_of(__u32 tgid)
{
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	return process && !process->exit_ns ? process : NULL;
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

/* Wakes the loader. A full ring has been heard already. */
static __always_inline void ring(__u32 tgid)
{
	bpf_ringbuf_output(&doorbell, &tgid, sizeof(tgid), 0);
}

#endif
