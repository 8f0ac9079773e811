/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_IMAGES_BPF_H
#define ALLOCSNAP_IMAGES_BPF_H

/*
 * How one image of a process ends and the next one begins: by exec, when nothing else of the process runs, or
 * by clear_traces, while its threads go on:
 *
 *	loader		marks the books; waits for the programs that run (a grace period of RCU); gives the
 *			books a new image and zeroed counters; takes the mark away
 *	each program	looks for the mark before it reads the image and counts a block: while it is there
 *			it counts none
 *
 * A program that has found no mark is through before the counters are zeroed, or it began when they were. So
 * it counts for one image. All that happens under the mark is of before the clearing, and forgotten with it.
 */

#include <bpf/bpf_helpers.h>
#include "account/admit.bpf.h"
#include "account/sample.bpf.h"

extern const volatile struct settings settings;

/* The image id to give out next; the loader takes from it too. */
extern __u64 next_image;

/* Blocks in the map whose image has gone; the loader takes off what it has swept. */
extern __u64 stale_blocks, stale_images;

#define COUNTERS_BEFORE_COST (sizeof(__u64) * COUNTER_entry_traps)
#define COUNTERS_AFTER_COST (sizeof(__u64) * (COUNTER_NR - COUNTER_program_ns - 1))

/*
 * Blocks of the old image are cleared away by the next drain; it frees what is not in the books. What the
 * recording has cost stays: so does the CPU time that it is a part of.
 */
static __always_inline void begin_anew(struct process *process)
{
	process->image = __sync_fetch_and_add(&next_image, 1);
	process->is_forked = 0;
	process->tracebacks = 0;
	__builtin_memset(process->counter, 0, COUNTERS_BEFORE_COST);
	__builtin_memset(&process->counter[COUNTER_program_ns] + 1, 0, COUNTERS_AFTER_COST);
	__builtin_memset(process->loss, 0, sizeof(process->loss));
}

/* What the image leaves in the map goes with the next drain. */
static __always_inline void leave_blocks(const struct process *process)
{
	__u64 blocks = held_blocks(process);

	__sync_fetch_and_add(&stale_images, 1);
	__sync_fetch_and_add(&stale_blocks, blocks);
}

/* The process has called exec: its memory is new, and its own. */
static __always_inline void begin_program(struct process *process, const struct task_struct *task)
{
	leave_blocks(process);
	begin_anew(process);
	process->exec_id = exec_id_of(task);
	process->exec_cnt++;
	process->memory_of = 0;
	process->memory = process->image;
	bpf_get_current_comm(process->comm, sizeof(process->comm));
}

#endif
