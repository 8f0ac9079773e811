/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COST_BPF_H
#define ALLOCSNAP_COST_BPF_H

/*
 * What the probes cost the thread that hits them: every trap is counted, by its kind, and of one
 * program in 64 how long it took. A thread counts for itself, and adds that to its process's books at
 * each program that is timed and at its end: what the books lack meanwhile are at most
 * COST_DISTANCE_MAX traps of each thread.
 */

#include "account/admit.bpf.h"

enum trap {
	TRAP_ENTRY = 0, /* in the order of the counters */
	TRAP_STEPPED,
	TRAP_RETURN,
};

/* Who shares a probed file and is not recorded pays for the trap all the same. */
static __always_inline void count_bystander(__u32 trap, __u64 nr)
{
	__u64 *traps = bpf_map_lookup_elem(&bystander_traps, &trap);

	if (traps)
		__sync_fetch_and_add(traps, nr);
}

_Static_assert(COUNTER_stepped_traps == COUNTER_entry_traps + TRAP_STEPPED &&
	       COUNTER_return_traps == COUNTER_entry_traps + TRAP_RETURN, "the counters' order");

/*
 * From one program that is timed to the next it is a random number of programs, 1 to 127, so that no
 * rhythm of the calls falls in with it; 64 on average.
 */
#define COST_DISTANCE_MAX 127
#define COST_DISTANCE 64

/* One that was interrupted, or a virtual processor that stood still, is not taken for 64 such. */
#define COST_LONGEST_NS 65536

static __always_inline enum trap trap_at_entry(__u64 cookie)
{
	return cookie & COOKIE_STEPPED ? TRAP_STEPPED : TRAP_ENTRY;
}

/* Of who bears the cost, whose memory it is runs in or not. */
static __always_inline void cost_charge_process(struct process *process, const struct thread_cost *cost, __u64 ns)
{
	__u64 *counter = &process->counter[COUNTER_entry_traps];

	for (int i = 0; i < TRAP_NR; i++)
		if (cost->trap_cnt[i])
			__sync_fetch_and_add(&counter[i], cost->trap_cnt[i]);
	if (ns)
		__sync_fetch_and_add(&process->counter[COUNTER_program_ns],
				     ns < COST_LONGEST_NS ? ns * COST_DISTANCE :
							    COST_LONGEST_NS * COST_DISTANCE);
}

/* Not inlined: one program in 64. */
static __noinline int cost_settle(void)
{
	struct thread *thread = current_thread();
	struct process *process = find_process_of_task(bpf_get_current_task_btf());
	__u64 begin_ns;

	if (!thread)
		return 0;
	begin_ns = thread->cost.begin_ns;
	if (process)
		cost_charge_process(process, &thread->cost, begin_ns ? bpf_ktime_get_boot_ns() - begin_ns : 0);
	for (int i = 0; !process && i < TRAP_NR; i++)
		count_bystander(i, thread->cost.trap_cnt[i]); /* it was recorded once */
	thread->image = 0; /* whose books are its own is looked up again */
	thread->cost = (struct thread_cost){
		.left = bpf_get_prandom_u32() % COST_DISTANCE_MAX + 1,
	};
	return 0;
}

/* Of a bystander; at a return or a `ret` before any entry; of a thread that there is no memory for. */
static __noinline int cost_unthreaded(__u64 trap)
{
	struct process *process = find_process_of_task(bpf_get_current_task_btf());

	if (process && trap < TRAP_NR)
		__sync_fetch_and_add(&process->counter[COUNTER_entry_traps + trap], 1);
	else if (!process)
		count_bystander(trap, 1);
	return 0;
}

/* thread: NULL where it has no state yet, or will have none. */
static __always_inline void cost_begin(struct thread *thread)
{
	if (thread && thread->cost.left == 1)
		thread->cost.begin_ns = bpf_ktime_get_boot_ns();
}

static __always_inline void cost_end(struct thread *thread, enum trap trap)
{
	if (!thread) {
		cost_unthreaded(trap);
		return;
	}
	thread->cost.trap_cnt[trap]++;
	if (thread->cost.left > 1)
		thread->cost.left--;
	else
		cost_settle();
}

#endif
