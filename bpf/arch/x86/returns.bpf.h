/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RETURNS_BPF_H
#define ALLOCSNAP_RETURNS_BPF_H

/* Where a pending call has its return address: on x86-64 where the call instruction has pushed it, until the return. */

/* Returns 0 if the address cannot be read. */
static __always_inline __u64 return_address_at(__u64 sp)
{
	__u64 return_address = 0;

	return bpf_probe_read_user(&return_address, sizeof(return_address), (void *)sp) ?
		       0 : return_address;
}

static __always_inline void note_link(struct pt_regs *ctx, struct thread *thread)
{
	(void)ctx, (void)thread;
}

/* The return address at an entry with this stack pointer; 0: not readable. */
static __always_inline __u64 return_address_at_entry(const struct thread *thread, __u64 sp)
{
	(void)thread;
	return return_address_at(sp);
}

/*
 * Whether the return address of the call is still in its place, as itself or as the trampoline of a return probe. Then
 * the call is under way, at an entry or a return with stack pointer sp.
 */
static __always_inline bool return_is_kept(struct thread *thread, const struct call *call, __u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 return_address = return_address_at(call->sp);

	(void)thread, (void)sp;
	return return_address &&
	       (return_address == call->return_address ||
		return_address == BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr));
}

#endif
