/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CALLS_BPF_H
#define ALLOCSNAP_CALLS_BPF_H

/*
 * Which call it is: at an entry, whether one is pending and which counts; at a return, which call
 * has returned.
 */

#include <bpf/bpf_tracing.h>
#include "filter/follow.bpf.h"
#include "account/record.bpf.h"
#include "unwind/stack.bpf.h"
#include "account/thread.bpf.h"

/* The return address is popped by the return on x86, and was never on the stack on arm64. */
#ifdef __TARGET_ARCH_x86
#define RETURN_POPS 8
#else
#define RETURN_POPS 0
#endif

enum pending {
	PENDING_NONE = 0,
	PENDING_HERE,	   /* on the stack that the new call is on */
	PENDING_ELSEWHERE, /* on another one */
};

/* Its process was not recorded meanwhile: that it has returned may not have been seen. */
static __always_inline bool is_from_before_gap(const struct process *process,
					       const struct call *call)
{
	return call->resumed_ns != resumed_ns(process);
}

/*
 * Memory does not tell of one from before a gap: the place of its return address may be anything's by
 * now. The kernel does, where it has hijacked that.
 */
static __always_inline bool call_is_over(const struct process *process, const struct call *call,
					 __u64 sp, __u32 site)
{
	if (!is_from_before_gap(process, call))
		return call_is_stale(call, sp, site);
	return call->return_address || !return_is_hijacked(call->sp) ||
	       (sp > call->sp && same_stack(call->sp, sp)); /* left by a longjmp */
}

/*
 * Whether the thread is inside a call of a layer that began earlier; drops one that can't return
 * any more. Global, as it is asked of each layer.
 */
__weak __noinline int pending_in(struct thread *thread, __u32 layer, __u64 sp, __u32 site)
{
	struct process *process = process_of_thread(thread);
	struct call *call;

	if (!process || !thread || layer >= LAYER_NR)
		return PENDING_NONE;
	call = &thread->layer[layer].call;
	if (!call_is_over(process, call, sp, site))
		return same_stack(call->sp, sp) ? PENDING_HERE : PENDING_ELSEWHERE;
	call_abandon(process, call);
	return PENDING_NONE;
}

/* The same, cheap where nothing is pending. */
static __always_inline enum pending call_pending(struct thread *thread, __u32 layer, __u64 sp,
						 __u64 cookie)
{
	return thread->layer[layer].call.sp ? pending_in(thread, layer, sp, COOKIE_SITE(cookie)) :
					      PENDING_NONE;
}

/* A call that is left by a jump to another function: the block will be from where that has it. */
static __always_inline void call_passes_on(struct call *call, __u64 sp, __u64 cookie)
{
	if (call->sp == sp)
		call->domain = COOKIE_DOMAIN(cookie);
}

/*
 * A call while one is pending. On the same stack it is the allocator's own business and counts with
 * the outer one, unless that is of a lower layer. On another stack (a signal handler's, a
 * coroutine's) it is a call of its own that is not followed, whatever its layer: to hijack its
 * return address could cost the target its life.
 */
static __always_inline bool call_is_declined(struct process *process, struct thread *thread,
					     __u64 sp, __u64 cookie)
{
	for (__u32 i = 0; i < LAYER_NR; i++) {
		enum pending pending = call_pending(thread, i, sp, cookie);

		if (pending == PENDING_ELSEWHERE) {
			process_count_loss(process, LOSS_calls_declined);
			return true;
		}
		if (pending == PENDING_HERE && i >= COOKIE_LAYER(cookie)) {
			call_has_nested(process, &thread->layer[i].call);
			if (i == COOKIE_LAYER(cookie))
				call_passes_on(&thread->layer[i].call, sp, cookie);
			process_add_counter(process, COUNTER_nested_calls, 1);
			return true;
		}
	}
	return false;
}

/* A free on another stack than a pending call is a free like any other. */
static __always_inline bool free_is_nested(struct process *process, struct thread *thread,
					   __u64 sp, __u64 cookie)
{
	for (__u32 i = 0; i < LAYER_NR; i++) {
		if (i < COOKIE_LAYER(cookie) ||
		    call_pending(thread, i, sp, cookie) != PENDING_HERE)
			continue;
		process_add_counter(process, COUNTER_nested_calls, 1);
		return true;
	}
	return false;
}

/* Whether the call is seen to return without its return address being hijacked. */
static __always_inline bool is_by_ret(const struct process *process, __u64 cookie)
{
	return process->by_ret || cookie & COOKIE_BY_RET;
}

/* The call returns an error number, and stores the block's address where its argument points. */
static __always_inline bool is_stored(enum call_shape shape)
{
	return shape == SHAPE_POSIX_MEMALIGN || shape == SHAPE_CUSTOM_OUT;
}

/* The thread has no books. What was lost is its own where the memory is of a process that has left it. */
static __noinline int lose_ownerless(void)
{
	struct process *process = find_process_of_task(bpf_get_current_task_btf());

	if (process && process->memory_of)
		process_count_loss(process, LOSS_calls_ownerless);
	return 1;
}

/* There is no memory for the state of the thread. Global, so that its callers need less of the stack. */
__weak __noinline int free_unthreaded(__u32 layer, __u64 address)
{
	struct process *process = current_process();

	if (process && layer != LAYER_MAPPING && !is_clearing(process))
		record_free(process, layer, NULL, &(struct freed){ .address = address });
	return 0;
}

/*
 * Global, as there are many places that call it. 0, or 1 where nobody waits for the return, which
 * is what a session returns so that the return address stays as it is.
 */
__weak __noinline int call_begin(struct thread *thread, __u64 cookie, __u64 sp, __u64 size,
				 __u64 pointer)
{
	struct process *process = process_of_thread(thread);
	enum call_shape shape = COOKIE_SHAPE(cookie);
	__u32 layer = COOKIE_LAYER(cookie);
	struct calls *calls;
	bool is_unwanted;

	if (!process || layer >= LAYER_NR)
		return lose_ownerless();
	if (!thread) {
		process_count_loss(process, LOSS_threads_dropped);
		if (pointer && !is_stored(shape)) /* a realloc, most likely successful */
			free_unthreaded(layer, pointer);
		return 1;
	}
	if (call_is_declined(process, thread, sp, cookie))
		return 1;
	calls = &thread->layer[layer];
	is_unwanted = !block_is_wanted(thread, layer, size);
	if (is_unwanted) {
		calls->newest = 0; /* another block is about to be */
		if (!unwanted_is_followed(process->image, cookie, shape_is_realloc(shape), pointer))
			return 1;
	}
	calls->call_cnt++;
	barrier();
	calls->call = (struct call){
		.sp = sp,
		.return_address = is_by_ret(process, cookie) ? return_address_at(sp) : 0,
		.image = process->image,
		.size = size,
		.pointer = pointer,
		.old_bytes = shape == SHAPE_MREMAP ? thread->old_bytes : 0,
		.begin_ns = shape == SHAPE_MREMAP ? bpf_ktime_get_ns() : 0,
		.resumed_ns = resumed_ns(process),
		.shape = shape,
		.site = COOKIE_SITE(cookie),
		.domain = COOKIE_DOMAIN(cookie),
		.layer = layer,
		.is_unwanted = is_unwanted,
	};
	if (is_realloc(&calls->call))
		realloc_begin(process, &calls->call);
	return 0;
}

/* MAP_FAILED is one of them, as a raw system call's -errno is, and what a pool returns so; no block is there. */
#define ERRORS 4095

/* The block that a call has made, or 0; false: not to be known. */
static __always_inline bool call_result(const struct call *call, __u64 returned, __u64 *ret_address)
{
	if (call->shape == SHAPE_XALLOCX)
		returned = returned < call->size ? 0 : call->pointer;
	if (!is_stored(call->shape)) {
		*ret_address = returned >= -(__u64)ERRORS ? 0 : returned;
		return true;
	}
	*ret_address = 0;
	if ((__u32)returned) /* an error number: an int, the upper half is anything */
		return true;
	return !bpf_probe_read_user(ret_address, sizeof(*ret_address), (void *)call->pointer);
}

static __always_inline void call_finish(const struct caller *caller, struct process *process,
					struct walk *walk, struct calls *calls, __u64 returned)
{
	struct call *call = &calls->call;
	__u64 now = read_epoch(), address;

	if (!call_result(call, returned, &address)) {
		process_count_loss(process, LOSS_results_unreadable);
		return;
	}
	if (is_realloc(call)) {
		/* realloc(p, 0) that returns NULL has freed p (glibc, jemalloc). */
		if (address || (!call->size && call->shape != SHAPE_MREMAP) ||
		    call->shape == SHAPE_REALLOCF)
			realloc_succeed(process, call, now);
		else
			realloc_fail(process, call, now);
	}
	if (call->is_unwanted || !is_recording(process)) { /* in a gap nobody would see it leave */
		if (address && call->layer == LAYER_MAPPING)
			range_remove(address, call->size, 0, 0, now);
	} else if (address) {
		record_allocation(caller, process, walk, calls, address, now);
	} else {
		process_add_counter(process, COUNTER_failed_calls, 1);
	}
}

/* A realloc: what it does with the old block is seen through, also where the recording pauses by now. */
static __always_inline bool took_block(const struct process *process, const struct call *call)
{
	return (call->has_old || call->has_dropped) && !is_clearing(process);
}

static __always_inline bool is_in_call(const struct thread *thread)
{
	return thread && (thread->layer[LAYER_POOL].call.sp || thread->layer[LAYER_HEAP].call.sp ||
			  thread->layer[LAYER_MAPPING].call.sp);
}

/*
 * What the books of a process that is just being probed miss is older than the recording. Global, so
 * that the programs themselves need none of the 512 bytes of stack.
 */
__weak __noinline int call_end(struct thread *thread, __u64 cookie, __u64 returned)
{
	struct process *process = process_of_thread(thread);
	__u32 layer = COOKIE_LAYER(cookie);
	struct calls *calls;

	if (!process || layer >= LAYER_NR)
		return 0;
	if (!is_in_call(thread)) {
		if (is_recording(process) && !process->by_ret) /* a `ret` has seen it */
			process_count_loss(process, LOSS_returns_unmatched);
		return 0;
	}
	calls = &thread->layer[layer];
	if (calls->call.sp != thread->caller.sp - RETURN_POPS || calls->call.site != COOKIE_SITE(cookie))
		return 0; /* of a nested call */
	if (is_from_before_gap(process, &calls->call))
		return 0; /* whose it is can't be known; the next call drops it */
	if (is_recording(process) || took_block(process, &calls->call))
		call_finish(&thread->caller, process, &thread->walk, calls, returned);
	calls->call.sp = 0;
	return 0;
}

/*
 * At a `ret`, or a jump that takes its place: what returns is the call whose return address the
 * stack pointer points at. Others come by here too: nested ones, and the allocator's own parts.
 * Global, as calls of several layers may end there, where one jumps to another.
 */
__weak __noinline int end_by_ret_in(struct thread *thread, __u32 layer, __u64 sp,
				    __u64 frame_pointer, __u64 returned)
{
	struct process *process = process_of_thread(thread);
	struct calls *calls;

	if (!process || !thread || layer >= LAYER_NR)
		return 0;
	calls = &thread->layer[layer];
	thread->caller = (struct caller){ calls->call.return_address, sp + sizeof(__u64), frame_pointer };
	if (is_from_before_gap(process, &calls->call) || !return_is_kept(&calls->call))
		call_abandon(process, &calls->call);
	else if (is_recording(process) || took_block(process, &calls->call))
		call_finish(&thread->caller, process, &thread->walk, calls, returned);
	calls->call.sp = 0;
	return 0;
}

static __always_inline int call_end_by_ret(struct pt_regs *ctx, struct thread *thread, __u64 sp,
					   __u64 returned)
{
	if (!process_of_thread(thread))
		return 0;
	for (int i = LAYER_NR - 1; thread && i >= 0; i--) {
		const struct call *call = &thread->layer[i].call;

		if (call->sp && call->sp == sp && call->return_address)
			end_by_ret_in(thread, i, sp, PT_REGS_FP(ctx), returned);
	}
	return 0;
}

__weak __noinline int free_begin(struct thread *thread, __u64 cookie, __u64 sp, __u64 address,
				 __u64 bytes)
{
	__u32 layer = COOKIE_LAYER(cookie);
	struct process *process;

	if (!address || !may_be_known(layer, address))
		return 0;
	process = process_of_thread(thread);
	if (!process)
		lose_ownerless();
	if (!process || !is_recording(process) || layer >= LAYER_NR)
		return 0;
	if (!thread && layer == LAYER_MAPPING)
		process_count_loss(process, LOSS_threads_dropped);
	if (!thread)
		return free_unthreaded(layer, address);
	if (free_is_nested(process, thread, sp, cookie))
		return 0;
	record_free(process, layer, &thread->layer[layer], &(struct freed){
		.address = address,
		.bytes = bytes,
		.sp = sp,
		.site = COOKIE_SITE(cookie),
		.restarts = !!(cookie & COOKIE_RESTARTS),
	});
	return 0;
}

#endif
