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
#include "cut.bpf.h"
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

/* Raises a peak to current; one that loses 8 races in a row is left out. */
static __always_inline void raise_peak(struct process *process, enum counter counter, __u64 current)
{
	__u64 *peak = &process->counter[counter];

	for (int i = 0; i < PEAK_TRIES; i++) {
		__u64 seen = *(volatile __u64 *)peak;

		if (seen >= current || __sync_val_compare_and_swap(peak, seen, current) == seen)
			return;
	}
}

static __always_inline void count_entered(struct process *process, __u64 size)
{
	__u64 *current = process->counter;
	__u64 bytes = __sync_fetch_and_add(&current[COUNTER_current_bytes], size);
	__u64 blocks_before = __sync_fetch_and_add(&current[COUNTER_current_blocks], 1);

	count(process, COUNTER_allocations, 1);
	count(process, COUNTER_allocated_bytes, size);
	raise_peak(process, COUNTER_peak_bytes, bytes + size);
	raise_peak(process, COUNTER_peak_blocks, blocks_before + 1);
}

static __always_inline void count_removed(struct process *process, __u64 size)
{
	count(process, COUNTER_current_bytes, -size);
	count(process, COUNTER_current_blocks, -1);
	count(process, COUNTER_frees, 1);
	count(process, COUNTER_freed_bytes, size);
}

/* Takes a block out of the map, into *block, without counting. */
static __always_inline bool block_take(struct process *process, __u64 address, struct block *block,
				       __u64 now)
{
	struct block_key key = { .address = address, .image = process->image };
	struct block *found = bpf_map_lookup_elem(&blocks, &key);

	if (!found)
		return false;
	*block = *found;
	hand_over(process, &key, block, now);
	return bpf_map_delete_elem(&blocks, &key) == 0;
}

/* Puts a block under its address; one that is still there was freed without our seeing it. */
static __always_inline long block_put(struct process *process, __u64 address, struct block *block,
				      __u64 now)
{
	struct block_key key = { .address = address, .image = process->image };
	struct block missed;
	long err = bpf_map_update_elem(&blocks, &key, block, BPF_NOEXIST);

	if (err == -EEXIST) {
		if (block_take(process, address, &missed, now)) {
			lose(process, LOSS_blocks_replaced);
			count_removed(process, missed.size);
		}
		err = bpf_map_update_elem(&blocks, &key, block, BPF_ANY);
	}
	if (err)
		lose(process, LOSS_blocks_dropped);
	return err;
}

/* The registers of who called the allocator, when the call has returned. */
struct caller {
	__u64 ip, sp, frame_pointer;
};

/* The current stack in the map of tracebacks, and its key; NULL and 0 where it does not fit. */
static __always_inline struct traceback *traceback_record(const struct caller *caller,
							  struct process *process,
							  struct walk *walk, __u64 *ret_hash)
{
	struct traceback *known;
	__u64 hash;
	long err;

	walk->image = process->image;
	walk->salt = mix(mix(settings.hash_seed ^ process->image) ^
			 (process->code_cnt + code_generation));
	traceback_take(walk, caller->ip, caller->sp, caller->frame_pointer);
	hash = traceback_hash(&walk->traceback, process->image);
	*ret_hash = hash;
	known = bpf_map_lookup_elem(&tracebacks, &hash);
	if (known)
		return known;
	walk->traceback.image = process->image;
	err = bpf_map_update_elem(&tracebacks, &hash, &walk->traceback, BPF_NOEXIST);
	if (!err || err == -EEXIST)
		return bpf_map_lookup_elem(&tracebacks, &hash);
	lose(process, LOSS_tracebacks_dropped);
	*ret_hash = 0;
	return NULL;
}

/* A new block: the source of the event does not matter, only where it is and who asked for it. */
static __always_inline void record_allocation(const struct caller *caller, struct process *process,
					      struct thread *thread, __u64 address, __u64 now)
{
	struct block block = {
		.size = thread->call.size,
		.birth_ns = bpf_ktime_get_ns(),
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.domain = thread->call.domain,
		.epoch = now,
	};
	struct traceback *traceback = traceback_record(caller, process, &thread->walk,
						       &block.traceback);

	thread->newest = 0;
	if (block_put(process, address, &block, now))
		return;
	count_entered(process, block.size);
	thread->newest = address;
	if (!traceback)
		return;
	__sync_fetch_and_add(&traceback->churn.allocations, 1);
	__sync_fetch_and_add(&traceback->churn.allocated_bytes, block.size);
}

/* Freed before its thread entered another block; a realloc is neither here nor there. */
static __always_inline void record_temporary(struct process *process, struct block *block)
{
	struct traceback *traceback = bpf_map_lookup_elem(&tracebacks, &block->traceback);

	count(process, COUNTER_temporary_blocks, 1);
	count(process, COUNTER_temporary_bytes, block->size);
	if (!traceback)
		return;
	__sync_fetch_and_add(&traceback->churn.temporary, 1);
	__sync_fetch_and_add(&traceback->churn.temporary_bytes, block->size);
}

/*
 * A free inside a free of the same address by another function: the block has left with the outer
 * one. Frees have no return probe, so of the outer one it is only known where it began.
 */
static __always_inline bool free_is_passed_on(const struct freed *outer, const struct freed *freed)
{
	return outer->address == freed->address && outer->site != freed->site &&
	       freed->sp <= outer->sp;
}

/* All that a forked process has allocated is in its books: what is not there came with the fork. */
static __always_inline void count_unknown_free(struct process *process)
{
	if (process->is_forked)
		count(process, COUNTER_inherited_frees, 1);
	else
		count(process, COUNTER_unknown_frees, 1);
}

/* thread: NULL where there is no memory for it. */
static __always_inline void record_free(struct process *process, struct thread *thread,
					const struct freed *freed)
{
	struct block block;

	if (block_take(process, freed->address, &block, read_epoch())) {
		count_removed(process, block.size);
		if (thread && thread->newest == freed->address &&
		    block.thread == (__u32)bpf_get_current_pid_tgid())
			record_temporary(process, &block);
	} else if (thread && free_is_passed_on(&thread->freed, freed)) {
		count(process, COUNTER_nested_calls, 1);
	} else {
		count_unknown_free(process);
	}
	if (thread)
		thread->freed = *freed;
}

/*
 * realloc frees the old block only if it succeeds, but then another thread may be given its
 * address before realloc returns. So the old block leaves the map at entry and comes back, with
 * its traceback and birth, if the call fails.
 */
static __always_inline void realloc_begin(struct process *process, struct call *call)
{
	if (call->pointer)
		call->has_old = block_take(process, call->pointer, &call->old, read_epoch());
}

/* The call will not have it any longer. */
static __always_inline void realloc_hand_over(struct process *process, const struct call *call,
					      __u64 now)
{
	const struct block_key key = { .address = call->pointer, .image = call->image };

	if (call->has_old)
		hand_over(process, &key, &call->old, now);
}

/* The books may have begun anew since. */
static __always_inline bool realloc_has_old(const struct process *process, const struct call *call)
{
	return call->has_old && call->image == process->image;
}

static __always_inline void realloc_succeed(struct process *process, struct call *call, __u64 now)
{
	realloc_hand_over(process, call, now);
	if (realloc_has_old(process, call))
		count_removed(process, call->old.size);
	else if (call->pointer)
		count_unknown_free(process);
}

static __always_inline void realloc_fail(struct process *process, struct call *call, __u64 now)
{
	realloc_hand_over(process, call, now);
	if (realloc_has_old(process, call) && block_put(process, call->pointer, &call->old, now))
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
		realloc_succeed(process, call, read_epoch());
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
	realloc_hand_over(process, call, read_epoch());
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
static __always_inline bool call_is_pending(struct process *process, struct call *call, __u64 sp,
					    __u32 site)
{
	if (!call->sp)
		return false;
	if (!call_is_stale(call, sp, site))
		return true;
	call_abandon(process, call);
	return false;
}

/*
 * A call while one is pending. On the same stack it is the allocator's own business and counts
 * with the outer one. On another stack (a signal handler's, a coroutine's) it is a call of its own
 * that is not followed: to hijack its return address could cost the target its life.
 */
static __always_inline void call_decline(struct process *process, __u64 pending_sp, __u64 sp)
{
	if (same_stack(pending_sp, sp))
		count(process, COUNTER_nested_calls, 1);
	else
		lose(process, LOSS_calls_declined);
}

/* Whether the call is seen to return without its return address being hijacked. */
static __always_inline bool is_by_ret(const struct process *process, __u64 cookie)
{
	return process->by_ret || cookie & COOKIE_BY_RET;
}

/*
 * Global, as there are many places that call it. 0, or 1 where nobody waits for the return, which
 * is what a session returns so that the return address stays as it is.
 */
__weak __noinline int call_begin(__u64 cookie, __u64 sp, __u64 size, __u64 pointer)
{
	struct process *process = current_process();
	enum call_shape shape = COOKIE_SHAPE(cookie);
	struct thread *thread;

	if (!process)
		return 1;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		lose(process, LOSS_threads_dropped);
		if (pointer && shape != SHAPE_POSIX_MEMALIGN) /* a realloc, most likely successful */
			record_free(process, NULL, &(struct freed){ .address = pointer });
		return 1;
	}
	if (call_is_pending(process, &thread->call, sp, COOKIE_SITE(cookie))) {
		call_decline(process, thread->call.sp, sp);
		return 1;
	}
	thread->call_cnt++;
	barrier();
	thread->call = (struct call){
		.sp = sp,
		.return_address = is_by_ret(process, cookie) ? return_address_at(sp) : 0,
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

static __always_inline void call_finish(const struct caller *caller, struct process *process,
					struct thread *thread, __u64 returned)
{
	struct call *call = &thread->call;
	__u64 now = read_epoch(), address;

	if (!call_result(call, returned, &address)) {
		lose(process, LOSS_results_unreadable);
		return;
	}
	if (is_realloc(call)) {
		/* realloc(p, 0) that returns NULL has freed p (glibc, jemalloc). */
		if (address || !call->size)
			realloc_succeed(process, call, now);
		else
			realloc_fail(process, call, now);
	}
	if (address)
		record_allocation(caller, process, thread, address, now);
	else
		count(process, COUNTER_failed_calls, 1);
}

/* What the books of a process that is just being probed miss is older than the recording. */
static __always_inline int call_end(struct pt_regs *ctx, __u64 entry_sp, __u64 returned)
{
	const struct caller caller = { PT_REGS_IP(ctx), PT_REGS_SP(ctx), PT_REGS_FP(ctx) };
	struct process *process = current_process();
	__u32 site = COOKIE_SITE(bpf_get_attach_cookie(ctx));
	struct thread *thread;

	if (!process)
		return 0;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (!thread || !thread->call.sp) {
		if (process->is_open && !process->by_ret) /* a `ret` has seen it */
			lose(process, LOSS_returns_unmatched);
		return 0;
	}
	if (thread->call.sp != entry_sp || thread->call.site != site)
		return 0; /* of a nested call */
	if (process->is_open)
		call_finish(&caller, process, thread, returned);
	thread->call.sp = 0;
	return 0;
}

/*
 * At a `ret`, or a jump that takes its place: what returns is the call whose return address the
 * stack pointer points at. Others come by here too: nested ones, and the allocator's own parts.
 */
static __always_inline int call_end_by_ret(struct pt_regs *ctx, __u64 sp, __u64 returned)
{
	struct process *process = current_process();
	struct caller caller = { .sp = sp + sizeof(__u64), .frame_pointer = PT_REGS_FP(ctx) };
	struct thread *thread;

	if (!process)
		return 0;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (!thread || !thread->call.sp || thread->call.sp != sp || !thread->call.return_address)
		return 0;
	caller.ip = thread->call.return_address;
	if (!return_is_kept(&thread->call))
		call_abandon(process, &thread->call);
	else if (process->is_open)
		call_finish(&caller, process, thread, returned);
	thread->call.sp = 0;
	return 0;
}

static __always_inline int free_begin(__u64 cookie, __u64 sp, __u64 address)
{
	struct process *process = current_process();
	struct thread *thread;

	if (!process || !process->is_open || !address)
		return 0;
	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
				      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (thread && call_is_pending(process, &thread->call, sp, COOKIE_SITE(cookie)) &&
	    same_stack(thread->call.sp, sp)) {
		count(process, COUNTER_nested_calls, 1);
		return 0;
	}
	record_free(process, thread, &(struct freed){
		.address = address,
		.sp = sp,
		.site = COOKIE_SITE(cookie),
	});
	return 0;
}

#endif
