/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_IMAGES_BPF_H
#define ALLOCSNAP_IMAGES_BPF_H

/*
 * One image of a process ends and the next one begins: by exec, when no other thread of the process runs, or
 * by clear_traces, while its threads go on:
 *
 *	loader		marks the books; waits for the running programs (an RCU grace period); gives the books a
 *			new image and zeroed counters; removes the mark
 *	each program	looks for the mark before it reads the image and counts a block; it counts no block
 *			while the mark is there
 *
 * A program that finds no mark has ended before the counters are zeroed, or begins after that. So it counts for one
 * image. All events under the mark belong to the time before the clearing, and are forgotten with it.
 */

#include <bpf/bpf_helpers.h>
#include "account/admit.bpf.h"
#include "account/sample.bpf.h"

/* The next image id to give out; the loader takes ids from it, too. */
extern __u64 next_image;

/* Blocks in the map whose image is gone. The loader subtracts those that it has removed. */
extern __u64 stale_blocks;

#define COUNTERS_BEFORE_COST (sizeof(__u64) * COUNTER_entry_traps)
#define COUNTERS_AFTER_COST (sizeof(__u64) * (COUNTER_NR - COUNTER_program_ns - 1))

/*
 * Begins a new image with zeroed counters. The next drain removes the blocks of the old image from the map. The cost
 * counters stay, because the CPU time that they are a part of stays, too.
 */
static __always_inline void begin_anew(struct process *process)
{
	bool keeps_sampler = has_sampler(process);

	process->image = __sync_fetch_and_add(&next_image, 1);
	process->sampler_image = keeps_sampler ? process->image : 0;
	process->is_forked = 0;
	process->tracebacks = 0;
	__builtin_memset(process->counter, 0, COUNTERS_BEFORE_COST);
	__builtin_memset(&process->counter[COUNTER_program_ns] + 1, 0, COUNTERS_AFTER_COST);
	__builtin_memset(process->loss, 0, sizeof(process->loss));
}

/* Counts the blocks that the image leaves in the map; the next drain removes them. */
static __always_inline void leave_blocks(const struct process *process)
{
	__u64 blocks = held_blocks(process);

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
	process->sharers = 0;
	process->memory = process->image;
	process->sampler_image = 0;
	bpf_get_current_comm(process->comm, sizeof(process->comm));
}

#endif
