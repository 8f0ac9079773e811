/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_THREAD_BPF_H
#define ALLOCSNAP_THREAD_BPF_H

/* Finds the account that the thread at a probe writes to. */

#include <bpf/bpf_helpers.h>
#include "account/admit.bpf.h"
#include "account/sample.bpf.h"
#include "shared/links_state.h"

/*
 * One image of a process ends and the next one begins: by exec, when no other thread of the process runs, or
 * by clear_traces, while its threads go on:
 *
 *	loader		marks the account; waits for the running programs (an RCU grace period); gives the account a
 *			new image and zeroed counters; removes the mark
 *	each program	looks for the mark before it reads the image and counts a block; it counts no block
 *			while the mark is there
 *
 * A program that finds no mark has ended before the counters are zeroed, or begins after that. So it counts for one
 * image. All events under the mark belong to the time before the clearing, and are forgotten with it.
 */

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
	bool keeps_sampler = has_sampler(process), keeps_pages = process->pages_image == process->image;

	process->image = __sync_fetch_and_add(&next_image, 1);
	process->sampler_image = keeps_sampler ? process->image : 0;
	process->pages_image = keeps_pages ? process->image : 0;
	process->is_forked = 0;
	process->tracebacks = 0;
	process->leaves = 0;
	process->pages_bytes = 0;
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
	process->pages_image = 0;
	bpf_get_current_comm(process->comm, sizeof(process->comm));
}

/*
 * Notes the exec count of the process. The count is unknown at first if the loader has admitted the process. If an
 * older count is known, the program at the exec was missed.
 */
static __noinline int note_exec(struct process *process, struct task_struct *task)
{
	__u64 before = process->exec_id, now = exec_id_of(task);

	if (__sync_val_compare_and_swap(&process->exec_id, before, now) != before || !before)
		return 0;
	begin_program(process, task);
	process->args_bytes = 0;
	__sync_fetch_and_add(&process->loss[LOSS_execs_missed], 1);
	ring(task->tgid);
	return 0;
}

/*
 * The slot of current_process(), for a program at a probe, where an exec is complete. A global function, so that the
 * verifier walks it once a program.
 */
__weak __noinline __u32 find_account(struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct process *process = own_process();

	if (process && process->exec_id != exec_id_of(task))
		note_exec(process, task);
	process = process ? find_memory_owner(process) : NULL;
	if (process && thread) {
		thread->slot = process->slot;
		thread->image = process->image;
	}
	return process ? process->slot : NO_SLOT;
}

/*
 * Its account, for a thread with state: an array has the process found last time, which costs a twentieth of a look-up by
 * PID. An image is never used twice. Exec clears the image in the thread; one program in 64 looks whether an exec was
 * missed, and then clears it, too (cost.bpf.h).
 */
static __always_inline struct process *process_of_thread(struct thread *thread)
{
	struct process *process;

	if (thread && thread->image) {
		process = process_in(thread->slot);
		if (process && process->image == thread->image)
			return process;
	}
	return process_in(find_account(thread));
}

/*
 * Before Linux 7.0 a thread gets no state while another one makes its own on the same CPU, and was preempted. The tries
 * last until that one has run, which it does not while interrupts are off. Without memory they are in vain: after a few losses
 * there are no more.
 */
#define THREAD_TRIES (1 << 18)
#define THREAD_LOSSES 16

static long thread_try_create(__u32 nr, void *data)
{
	return !!bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/*
 * The state of the running thread, made if its process has an account. NULL: no memory, or no account. The account is checked
 * first, so that a program for a process that is not recorded ends at once.
 */
static __always_inline struct thread *own_thread(bool may_wait, bool *ret_is_bystander)
{
	struct thread *thread = current_thread();
	const struct process *process = thread ? NULL : own_process();

	*ret_is_bystander = !thread && !process;
	if (!process)
		return thread;
	bpf_loop(may_wait && process->loss[LOSS_threads_dropped] < THREAD_LOSSES ? THREAD_TRIES : 1, thread_try_create, NULL, 0);
	return current_thread();
}

/*
 * Counts each event once while a shared link and a process's own link are at one probe. Then each hit runs both
 * programs, and the loader may begin the next phase between them (src/collect/limits/own_links.h).
 *
 * The kernel runs the newest link of a probe first (consumer_add() in kernel/events/uprobes.c). The newer link notes in
 * the thread the state that it saw. When it has begun to count, the older link counts only if the note is from before,
 * or if the thread has no note because the newer link was not there yet: then the hit began before.
 */

extern __u64 links_state; /* a number that only grows; its phase is enum links_phase */

/* Whether the link with this cookie counts the event of the running thread. */
static __always_inline bool link_counts(struct thread *thread, __u64 cookie)
{
	__u64 state;
	bool own_count, counts, others_end;

	if (!settings.has_own_links)
		return true;
	state = *(volatile __u64 *)&links_state;
	own_count = LINKS_PHASE(state) == LINKS_TO_OWN || LINKS_PHASE(state) == LINKS_OWN;
	counts = own_count == !!(cookie & COOKIE_OWN_LINK);
	others_end = LINKS_PHASE(state) == LINKS_TO_OWN || LINKS_PHASE(state) == LINKS_TO_SHARED;
	if (!thread)
		return counts;
	if (!counts && others_end)
		return thread->links < state;
	thread->links = state;
	return counts;
}

#endif
