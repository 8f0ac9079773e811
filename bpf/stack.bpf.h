/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_STACK_BPF_H
#define ALLOCSNAP_STACK_BPF_H

/* Where on which stack a thread is. Only asked where a call is pending at an entry: rare. */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

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
 * Both in one mapping, and both or neither on the alternate signal stack. Where the mappings
 * can't be looked at just now (mmap lock held), they are taken for different stacks.
 */
static __always_inline bool same_stack(__u64 sp, __u64 other_sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct vma_range range = {};

	if (on_alternate_stack(task, sp) != on_alternate_stack(task, other_sp))
		return false;
	if (bpf_find_vma(task, sp, vma_range_of, &range, 0))
		return false;
	return other_sp - range.start < range.end - range.start;
}

/* Whether the return address at sp is the trampoline of a return probe, so a call is under way. */
static __always_inline bool return_is_hijacked(__u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	__u64 return_address = 0;

	return !bpf_probe_read_user(&return_address, sizeof(return_address), (void *)sp) &&
	       trampoline && return_address == trampoline;
}

/*
 * At an entry with stack pointer sp: has the pending call that was entered at pending_sp gone
 * without returning (longjmp, an exception, a missed return probe)? It is under way only while
 * its return address is hijacked: also where it was left by a tail call, at the same sp
 * (reallocarray jumps to realloc in glibc). Stacks grow down: above it on the same stack, it is
 * gone, whatever the dead memory below holds.
 */
static __always_inline bool call_is_stale(__u64 pending_sp, __u64 sp)
{
	if (!return_is_hijacked(pending_sp))
		return true;
	return sp > pending_sp && same_stack(pending_sp, sp);
}

#endif
