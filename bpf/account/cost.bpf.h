/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COST_BPF_H
#define ALLOCSNAP_COST_BPF_H

/*
 * The cost of the probes for the thread that hits them. Every trap is counted by its kind, and one program in 64 is
 * timed. A thread counts in its own state. At each timed program and at its end it adds the sums to the account of its
 * process. So the account lack at most COST_DISTANCE_MAX traps of each thread.
 */

#include "account/admit.bpf.h"

enum trap {
	TRAP_ENTRY = 0, /* the counters have the same order */
	TRAP_STEPPED,
	TRAP_RETURN,
};

/* A process that uses a probed file but is not recorded pays for the trap, too. */
static __always_inline void count_bystander(__u32 trap, __u64 nr)
{
	__u64 *traps = bpf_map_lookup_elem(&bystander_traps, &trap);

	if (traps)
		__sync_fetch_and_add(traps, nr);
}

_Static_assert(COUNTER_stepped_traps == COUNTER_entry_traps + TRAP_STEPPED &&
	       COUNTER_return_traps == COUNTER_entry_traps + TRAP_RETURN, "the counters' order");

/*
 * The distance between two timed programs is random, 1 to 127 programs, 64 on average. So the timing cannot follow a
 * pattern in the calls.
 */
#define COST_DISTANCE_MAX 127
#define COST_DISTANCE 64

/* An interrupted program, or a virtual CPU that stood still, must not count 64 times in full. */
#define COST_LONGEST_NS 65536

static __always_inline enum trap trap_at_entry(__u64 cookie)
{
	return cookie & COOKIE_STEPPED ? TRAP_STEPPED : TRAP_ENTRY;
}

/* The process that runs bears the cost, even if it runs in the memory of another one. */
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

/* Not inlined: only one program in 64 comes here. */
static __noinline int cost_settle(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct process *process = own_process();
	struct thread *thread = current_thread();
	__u64 begin_ns;

	if (!thread)
		return 0;
	begin_ns = thread->cost.begin_ns;
	if (process)
		cost_charge_process(process, &thread->cost, begin_ns ? bpf_ktime_get_boot_ns() - begin_ns : 0);
	for (int i = 0; !process && i < TRAP_NR; i++)
		count_bystander(i, thread->cost.trap_cnt[i]); /* the process was recorded before */
	if (!process || process->exec_id != exec_id_of(task))
		thread->image = 0; /* the next program looks up the account again */
	thread->cost = (struct thread_cost){
		.left = bpf_get_prandom_u32() % COST_DISTANCE_MAX + 1,
	};
	return 0;
}

/* Counts the trap of a bystander, of a return before any entry, or of a thread without memory for its state. */
static __noinline int cost_unthreaded(__u64 trap)
{
	struct process *process = own_process();

	if (process && trap < TRAP_NR)
		__sync_fetch_and_add(&process->counter[COUNTER_entry_traps + trap], 1);
	else if (!process)
		count_bystander(trap, 1);
	return 0;
}

/* thread is NULL if the thread has no state yet, or gets none. */
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
