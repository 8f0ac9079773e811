/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_STACK_BPF_H
#define ALLOCSNAP_STACK_BPF_H

/* Where on which stack a thread is. Only asked where a call is pending at an entry: rare. */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"

/*
 * Where the thread's own stack ends, as the kernel or the C library gave it: at the arguments of
 * the program, or at the thread's control block, which glibc and musl put on top of its stack.
 */
static __always_inline __u64 own_stack_end(struct task_struct *task)
{
	if (task->pid == task->tgid)
		return BPF_CORE_READ(task, mm, start_stack);
#ifdef __TARGET_ARCH_x86
	return task->thread.fsbase;
#else
	return 0;
#endif
}

#define NEAR_BYTES (64ULL << 10)

struct vma_range {
	__u64 start, end;
};

static long vma_range_of(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct vma_range *range = data;

	range->start = vma->vm_start;
	range->end = vma->vm_end;
	return 0;
}

static __always_inline bool on_alternate_stack(struct task_struct *task, __u64 sp)
{
	return sp - task->sas_ss_sp < task->sas_ss_size;
}

/*
 * Both on the alternate signal stack, or both on the thread's own. Coroutines may have their stacks
 * side by side in one mapping, so of other memory it is not known: then the stacks are taken for
 * different ones. Where the mappings can't be looked at just now (mmap lock held), a call a
 * little below the pending one is taken for one that it made.
 */
static __always_inline bool same_stack(__u64 pending_sp, __u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool alternate = on_alternate_stack(task, sp);
	struct vma_range range = {};
	__u64 end;

	if (alternate || on_alternate_stack(task, pending_sp))
		return alternate && on_alternate_stack(task, pending_sp);
	if (bpf_find_vma(task, sp, vma_range_of, &range, 0))
		return pending_sp - sp < NEAR_BYTES;
	end = own_stack_end(task);
	/* neighbours of one kind are one mapping, so it must end there, too */
	return sp < end && pending_sp < end && pending_sp >= range.start && end < range.end;
}

/* 0 where it can't be read. */
static __always_inline __u64 return_address_at(__u64 sp)
{
	__u64 return_address = 0;

	return bpf_probe_read_user(&return_address, sizeof(return_address), (void *)sp) ?
		       0 : return_address;
}

/*
 * Whether the call's return address is still where it was at entry, as such or as the trampoline of
 * a return probe: then the call is under way.
 */
static __always_inline bool return_is_kept(const struct call *call)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 return_address = return_address_at(call->sp);

	return return_address &&
	       (return_address == call->return_address ||
		return_address == BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr));
}

#define RETURNS_MAX 64 /* the kernel's own limit */

/* Whether the kernel waits for a return to the address that it has put in this place. */
static __always_inline bool return_is_hijacked(__u64 place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct return_instance *instance = BPF_CORE_READ(task, utask, return_instances);

	for (int i = 0; i < RETURNS_MAX && instance; i++) {
		if (BPF_CORE_READ(instance, stack) == place)
			return true;
		instance = BPF_CORE_READ(instance, next);
	}
	return false;
}

/*
 * At an entry with stack pointer sp: has the pending call gone without returning (longjmp, an
 * exception, a missed return)? It is under way only while its return address is kept: also where it
 * was left by a tail call, at the same sp (reallocarray jumps to realloc in glibc). Where nothing
 * hijacks return addresses, a second call of the same function from the same place looks the same;
 * but no function leaves itself by a tail call. Stacks grow down: above it on the same stack, it
 * is gone, whatever the dead memory below holds.
 */
static __always_inline bool call_is_stale(const struct call *call, __u64 sp, __u32 site)
{
	if (!return_is_kept(call))
		return true;
	if (sp == call->sp)
		return call->return_address && call->site == site;
	return sp > call->sp && same_stack(call->sp, sp);
}

#endif
