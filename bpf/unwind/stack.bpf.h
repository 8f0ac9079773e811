/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_STACK_BPF_H
#define ALLOCSNAP_STACK_BPF_H

/* Finds the stack that a thread is on. Needed only if a call is pending at an entry, which is rare. */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"

/*
 * The end of the thread's own stack. The stack of the main thread ends at the arguments of the program. The stack of
 * another thread ends at its control block, which glibc and musl put on top of the stack.
 */
static __always_inline __u64 own_stack_end(struct task_struct *task)
{
	if (task->pid == task->tgid)
		return BPF_CORE_READ(task, mm, start_stack);
	return task_thread_pointer(task);
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
 * Whether both are on the alternate signal stack, or both on the thread's own stack. Stacks in other memory count as
 * different, because the stacks of coroutines may lie side by side in one mapping. If the mappings cannot be read now
 * (mmap lock held), a call a little below the pending one counts as made by it.
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
	/* the kernel merges equal neighbours into one mapping, so both must also lie below the stack's end */
	return sp < end && pending_sp < end && pending_sp >= range.start && end < range.end;
}

#define RETURNS_MAX 64 /* the kernel's own limit */

struct hijacked {
	struct return_instance *instance;
	__u64 place, return_address;
};

static long compare_hijacked(__u32 nr, void *data)
{
	struct hijacked *hijacked = data;
	struct return_instance *instance = hijacked->instance;

	if (!instance)
		return 1;
	if (BPF_CORE_READ(instance, stack) == hijacked->place) {
		hijacked->return_address = BPF_CORE_READ(instance, orig_ret_vaddr);
		return 1;
	}
	hijacked->instance = BPF_CORE_READ(instance, next);
	return 0;
}

/*
 * The return address that a return probe has hijacked in this place, if it still waits for the return; else 0. A global
 * function: it is rare, and the verifier walks it once a program.
 */
__weak __noinline __u64 hijacked_return(__u64 place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct hijacked hijacked = { BPF_CORE_READ(task, utask, return_instances), place, 0 };

	bpf_loop(RETURNS_MAX, compare_hijacked, &hijacked, 0);
	return hijacked.return_address;
}

#include "returns.bpf.h"

/*
 * Whether the pending call has ended without a seen return (longjmp, exception, missed return), at an entry with stack
 * pointer sp.
 *
 * The call is under way only while its return address is kept, even after a tail call with the same sp (reallocarray
 * jumps to realloc in glibc). Without hijacked return addresses a second call of the same function from the same place
 * looks the same. But no function makes a tail call to itself, so at the same site it is a new call.
 *
 * Stacks grow down. If sp is above the pending call on the same stack, that call has ended, whatever the dead memory
 * below still holds.
 */
static __always_inline bool call_is_stale(struct thread *thread, const struct call *call, __u64 sp, __u32 site)
{
	if (!return_is_kept(thread, call, sp))
		return true;
	if (sp == call->sp)
		return call->return_address && call->site == site;
	return sp > call->sp && same_stack(call->sp, sp);
}

#endif
