/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_BPF_H
#define ALLOCSNAP_RECORD_BPF_H

/*
 * What an allocation, a free and a realloc do to the books.
 *
 * A block enters after the allocator has returned it and leaves before the allocator is told to
 * free it, so an address that goes from one thread to another is never attributed to the wrong
 * call. Between entry and return a call is pending on its thread. Calls inside a pending call
 * (operator new → malloc would be two probed functions; realloc(NULL) → malloc is in glibc) are
 * the allocator's own business and count once, with the outermost.
 */

#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "admit.bpf.h"
#include "stack.bpf.h"
#include "unwind.bpf.h"

static __always_inline void count(struct process *process, enum counter counter, __u64 n)
{
	__sync_fetch_and_add(&process->counter[counter], n);
}

static __always_inline void lose(struct process *process, enum loss loss)
{
	__sync_fetch_and_add(&process->loss[loss], 1);
}

#define PEAK_TRIES 8

/* Raises the peak to current; one that loses 8 races in a row is left out. */
static __always_inline void raise_peak(struct process *process, __u64 current)
{
	__u64 *peak = &process->counter[COUNTER_peak_bytes];

	for (int i = 0; i < PEAK_TRIES; i++) {
		__u64 seen = *(volatile __u64 *)peak;

		if (seen >= current || __sync_val_compare_and_swap(peak, seen, current) == seen)
			return;
	}
}

static __always_inline void count_entered(struct process *process, __u64 size)
{
	__u64 before = __sync_fetch_and_add(&process->counter[COUNTER_current_bytes], size);

	count(process, COUNTER_current_blocks, 1);
	count(process, COUNTER_allocations, 1);
	count(process, COUNTER_allocated_bytes, size);
	raise_peak(process, before + size);
}

static __always_inline void count_removed(struct process *process, __u64 size)
{
	count(process, COUNTER_current_bytes, -size);
	count(process, COUNTER_current_blocks, -1);
	count(process, COUNTER_frees, 1);
	count(process, COUNTER_freed_bytes, size);
}

/* Takes a block out of the map, into *block, without counting. */
static __always_inline bool block_take(struct process *process, __u64 address, struct block *block)
{
	struct block_key key = { .address = address, .image = process->image };
	struct block *found = bpf_map_lookup_elem(&blocks, &key);

	if (!found)
		return false;
	*block = *found;
	return bpf_map_delete_elem(&blocks, &key) == 0;
}

/* Puts a block under its address; one that is still there was freed without our seeing it. */
static __always_inline long block_put(struct process *process, __u64 address, struct block *block)
{
	struct block_key key = { .address = address, .image = process->image };
	struct block missed;
	long err = bpf_map_update_elem(&blocks, &key, block, BPF_NOEXIST);

	if (err == -EEXIST) {
		if (block_take(process, address, &missed)) {
			lose(process, LOSS_blocks_replaced);
			count_removed(process, missed.size);
		}
		err = bpf_map_update_elem(&blocks, &key, block, BPF_ANY);
	}
	if (err)
		lose(process, LOSS_blocks_dropped);
	return err;
}

/* The key of the current stack in the map of tracebacks, or 0. */
static __always_inline __u64 traceback_record(struct pt_regs *ctx, struct process *process,
					      struct walk *walk)
{
	__u64 hash;
	long err;

	traceback_take(walk, PT_REGS_IP(ctx), PT_REGS_SP(ctx), PT_REGS_FP(ctx));
	hash = traceback_hash(&walk->traceback, process->image);
	if (bpf_map_lookup_elem(&tracebacks, &hash))
		return hash;
	err = bpf_map_update_elem(&tracebacks, &hash, &walk->traceback, BPF_NOEXIST);
	if (!err || err == -EEXIST)
		return hash;
	lose(process, LOSS_tracebacks_dropped);
	return 0;
}

/* A new block: the source of the event does not matter, only where it is and who asked for it. */
static __always_inline void record_allocation(struct pt_regs *ctx, struct process *process,
					      struct thread *thread, __u64 address)
{
	struct block block = {
		.size = thread->call.size,
		.traceback = traceback_record(ctx, process, &thread->walk),
		.birth_ns = bpf_ktime_get_ns(),
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.domain = thread->call.domain,
	};

	if (!block_put(process, address, &block))
		count_entered(process, block.size);
}

static __always_inline void record_free(struct process *process, __u64 address)
{
	struct block block;

	if (block_take(process, address, &block))
		count_removed(process, block.size);
	else
		count(process, COUNTER_unknown_frees, 1);
}

/*
 * realloc frees the old block only if it succeeds, but then another thread may be given its
 * address before realloc returns. So the old block leaves the map at entry and comes back, with
 * its traceback and birth, if the call fails.
 */
static __always_inline void realloc_begin(struct process *process, struct call *call)
{
	if (call->pointer)
		call->has_old = block_take(process, call->pointer, &call->old);
}

/* The books may have begun anew since. */
static __always_inline bool realloc_has_old(const struct process *process, const struct call *call)
{
	return call->has_old && call->image == process->image;
}

static __always_inline void realloc_succeed(struct process *process, struct call *call)
{
	if (realloc_has_old(process, call))
		count_removed(process, call->old.size);
	else if (call->pointer)
		count(process, COUNTER_unknown_frees, 1);
}

static __always_inline void realloc_fail(struct process *process, struct call *call)
{
	if (realloc_has_old(process, call) && block_put(process, call->pointer, &call->old))
		count_removed(process, call->old.size);
}

static __always_inline bool is_realloc(const struct call *call)
{
	return call->shape == SHAPE_REALLOC || call->shape == SHAPE_REALLOCARRAY;
}

/* The call will never be seen to return. A realloc has most likely succeeded. */
static __always_inline void call_abandon(struct process *process, struct call *call)
{
	lose(process, LOSS_calls_unreturned);
	if (is_realloc(call))
		realloc_succeed(process, call);
	call->sp = 0;
}

/*
 * The thread ends inside the call: it was killed, most likely with its process, and a realloc
 * has most likely not freed its block yet, unless somebody else has the address by now.
 */
static __always_inline void call_cut_off(struct process *process, struct call *call)
{
	struct block_key key = { .address = call->pointer, .image = process->image };
	long err;

	lose(process, LOSS_calls_unreturned);
	call->sp = 0;
	if (!is_realloc(call) || !realloc_has_old(process, call))
		return;
	err = bpf_map_update_elem(&blocks, &key, &call->old, BPF_NOEXIST);
	if (err)
		count_removed(process, call->old.size);
	if (err && err != -EEXIST)
		lose(process, LOSS_blocks_dropped);
}

/* Whether the thread is inside a call that began earlier; drops one that can't return any more. */
static __always_inline bool call_is_nested(struct process *process, struct call *call, __u64 sp)
{
	if (!call->sp)
		return false;
	if (call_is_stale(call->sp, sp)) {
		call_abandon(process, call);
		return false;
	}
	count(process, COUNTER_nested_calls, 1);
	return true;
}

/* Global, as there are many places that call it; it returns what a probe returns. */
__weak __noinline int call_begin(__u64 cookie, __u64 sp, __u64 size, __u64 pointer)
{
	struct process *process = current_process();
	enum call_shape shape = COOKIE_SHAPE(cookie);
	struct thread *thread;

	if (!process)
		return 0;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		lose(process, LOSS_threads_dropped);
		if (pointer && shape != SHAPE_POSIX_MEMALIGN)
			record_free(process, pointer); /* a realloc, most likely successful */
		return 0;
	}
	if (call_is_nested(process, &thread->call, sp))
		return 0;
	thread->call = (struct call){
		.sp = sp,
		.image = process->image,
		.size = size,
		.pointer = pointer,
		.shape = shape,
		.site = COOKIE_SITE(cookie),
		.domain = COOKIE_DOMAIN(cookie),
	};
	if (is_realloc(&thread->call))
		realloc_begin(process, &thread->call);
	return 0;
}

/* The block that a call has made, or 0; false: not to be known. */
static __always_inline bool call_result(const struct call *call, __u64 returned, __u64 *ret_address)
{
	if (call->shape != SHAPE_POSIX_MEMALIGN) {
		*ret_address = returned;
		return true;
	}
	*ret_address = 0;
	if ((__u32)returned) /* an error number: an int, the upper half is anything */
		return true;
	return !bpf_probe_read_user(ret_address, sizeof(*ret_address), (void *)call->pointer);
}

static __always_inline void call_finish(struct pt_regs *ctx, struct process *process,
					struct thread *thread, __u64 returned)
{
	struct call *call = &thread->call;
	__u64 address;

	if (!call_result(call, returned, &address)) {
		lose(process, LOSS_results_unreadable);
		return;
	}
	if (is_realloc(call)) {
		/* realloc(p, 0) that returns NULL has freed p (glibc, jemalloc). */
		if (address || !call->size)
			realloc_succeed(process, call);
		else
			realloc_fail(process, call);
	}
	if (address)
		record_allocation(ctx, process, thread, address);
	else
		count(process, COUNTER_failed_calls, 1);
}

/* What the books of a process that is just being probed miss is older than the recording. */
static __always_inline int call_end(struct pt_regs *ctx, __u64 entry_sp, __u64 returned)
{
	struct process *process = current_process();
	__u32 site = COOKIE_SITE(bpf_get_attach_cookie(ctx));
	struct thread *thread;

	if (!process)
		return 0;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (!thread || !thread->call.sp) {
		if (process->is_open)
			lose(process, LOSS_returns_unmatched);
		return 0;
	}
	if (thread->call.sp != entry_sp || thread->call.site != site)
		return 0; /* of a nested call */
	if (process->is_open)
		call_finish(ctx, process, thread, returned);
	thread->call.sp = 0;
	return 0;
}

static __always_inline int free_begin(__u64 sp, __u64 address)
{
	struct process *process = current_process();
	struct thread *thread;

	if (!process || !process->is_open || !address)
		return 0;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (thread && call_is_nested(process, &thread->call, sp))
		return 0;
	record_free(process, address);
	return 0;
}

#endif
