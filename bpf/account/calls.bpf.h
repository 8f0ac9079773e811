/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CALLS_BPF_H
#define ALLOCSNAP_CALLS_BPF_H

/*
 * Matches entries and returns of calls. An entry: whether a call is pending, and which of the two counts. A return:
 * which call has returned.
 */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "account/intercepted.bpf.h"
#include "account/record.bpf.h"
#include "account/sample.bpf.h"
#include "account/thread.bpf.h"
#include "shared/argument_types.h"
#include "unwind/stack.bpf.h"

/* Takes a value from where a thread has it at a place in the code (shared/argument_types.h). */

/* n * size, or on overflow the largest size; such a call returns NULL. */
static __always_inline __u64 product(__u64 n, __u64 size)
{
	__u64 most = size ? ~0ULL / size : ~0ULL;

	barrier_var(most); /* otherwise clang uses a 128-bit multiplication, which BPF does not have */
	return n > most ? ~0ULL : n * size;
}

/* Cuts a value to its width. */
static __always_inline __u64 narrow_argument(const struct argument_source *source, __u64 value)
{
	__u32 shift = (64 - 8 * source->bytes) & 63;

	value <<= shift;
	return source->is_signed ? (__u64)((__s64)value >> shift) : value >> shift;
}

static __always_inline __u64 argument_register(struct pt_regs *ctx, __u32 place)
{
	__u64 value = 0;

	if (place != ARGUMENT_NO_REGISTER)
		bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + place);
	return value;
}

/* 0; else it cannot be read. */
static __always_inline int argument_value(struct pt_regs *ctx, const struct argument_source *source, __u64 *ret)
{
	__u64 value = 0, address;
	__u32 bytes = source->bytes;
	int err = 0;

	barrier_var(bytes); /* otherwise clang reads it again behind the check */
	if (bytes > sizeof(value))
		return 1;
	if (source->kind == ARGUMENT_CONSTANT) {
		value = source->value;
	} else if (source->kind == ARGUMENT_REGISTER) {
		value = argument_register(ctx, source->base);
	} else {
		address = source->value + argument_register(ctx, source->base) +
			  argument_register(ctx, source->index) * source->scale;
		if (source->kind == ARGUMENT_ADDRESS)
			value = address;
		else
			err = bpf_probe_read_user(&value, bytes, (void *)address);
	}
	*ret = narrow_argument(source, value);
	return err;
}

/*
 * Processes that sample their own heap. A library in the process chooses blocks, and passes a probe with each of them
 * and its weight, and another probe before such a block is freed (USDT of provider otel_memory). Then only samples cost
 * a trap.
 *
 *	otel_memory:alloc(pointer, size, weight)	weight: the bytes that the sample stands for
 *	otel_memory:free(pointer)
 *
 * The account of such a process (has_sampler()) has no other new blocks of the heap. Probes on malloc, which the files
 * may have for other processes, still take away blocks that entered before the sampler was noticed: each stands for
 * itself. So the sums are right however late that was. The loader notices the sampler, or the first sample shows it.
 */

extern struct usdt_call usdt_calls[USDT_CALLS_MAX]; /* filled before the probes with their cookies */

#define SAMPLE_EXCESS_MAX (1ULL << 40) /* a sample does not stand for more bytes beyond its own */

/* Whether blocks of this layer come from the process's own sampler only. */
static __always_inline bool is_of_sampler(const struct process *process, __u32 layer)
{
	return layer == LAYER_HEAP && has_sampler(process);
}

/* 0; else it cannot be read. */
static __noinline int usdt_argument(struct pt_regs *ctx, __u32 row, __u32 nr, __u64 *ret)
{
	if (row >= USDT_CALLS_MAX || nr >= USDT_ARGUMENTS)
		return 1;
	return argument_value(ctx, &usdt_calls[row].argument[nr], ret);
}

/*
 * The bytes that a sample stands for; 0: it is not recorded. A sampler that reports the number of samples in a block
 * times the mean distance may report less than the block's size. Such a block stands for itself, with the probability
 * weight / size: on average it adds the reported weight.
 */
static __always_inline __u64 weight_of_sample(struct process *process, __u64 size, __u64 weight)
{
	__u64 share;

	if (!weight || (weight > size && weight - size > SAMPLE_EXCESS_MAX)) {
		process_count_loss(process, LOSS_samples_refused);
		return 0;
	}
	if (weight >= size)
		return weight;
	share = size >> 32 ? weight / (size >> 16) : (weight << 16) / size;
	return (bpf_get_prandom_u32() & 0xffff) < share ? size : 0;
}

/* A global function like the next one, so that the programs themselves need little stack. */
__weak __noinline int sample_record(struct thread *thread, __u64 address, __u64 size, __u64 weight)
{
	struct process *process = process_of_thread(thread);
	struct block_key key;
	struct block block;
	bool is_chosen;

	if (!process || !thread || !is_recording(process) || !address)
		return 0;
	if (!has_sampler(process))
		process->sampler_image = process->image;
	is_chosen = size >= settings.min_size && (!settings.max_size || size <= settings.max_size);
	key = block_key_of(address, process->image, LAYER_HEAP);
	block = (struct block){
		.size = size,
		.birth_ns = bpf_ktime_get_ns(),
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.epoch = read_epoch(),
		.weight = is_chosen ? weight_of_sample(process, size, weight) : 0,
	};
	process_add_counter(process, COUNTER_reported_samples, 1);
	if (block.weight)
		record_block(&thread->caller, process, &thread->walk, &key, &block, 0, block.epoch, false);
	else
		process_add_counter(process, COUNTER_skipped_samples, 1); /* its free will not be known */
	return 0;
}

__weak __noinline int sample_free(struct thread *thread, __u64 address)
{
	struct process *process = process_of_thread(thread);

	if (process && is_recording(process) && address &&
	    !(may_be_known(LAYER_HEAP, address) && free_block(process, LAYER_HEAP, address, 0)) && !process->is_forked)
		process_add_counter(process, COUNTER_unknown_frees, 1);
	return 0;
}

static __always_inline int sampler_lose(struct thread *thread, enum loss loss)
{
	struct process *process = process_of_thread(thread);

	if (process)
		process_count_loss(process, loss);
	return 0;
}

/* A thread has passed a sampler's probe. */
static __noinline int enter_sampler(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	__u32 row = COOKIE_USER_CALL(cookie);
	__u64 address = 0, size = 0, weight = 0;

	if (usdt_argument(ctx, row, 0, &address))
		return sampler_lose(thread, LOSS_samples_refused);
	if (COOKIE_SHAPE(cookie) == SHAPE_SAMPLE_FREE)
		return sample_free(thread, address);
	if (!thread)
		return sampler_lose(thread, LOSS_threads_dropped);
	if (usdt_argument(ctx, row, 1, &size) || usdt_argument(ctx, row, 2, &weight))
		return sampler_lose(thread, LOSS_samples_refused);
	thread->caller = caller_at(ctx, CALLER_EXACT);
	sample_record(thread, address, size, weight);
	return COOKIE_SHAPE(cookie) == SHAPE_SAMPLE_LOST ? sample_free(thread, address) : 0;
}

/*
 * Decides whether a call whose block is not recorded is still followed to its return. A session can save the return
 * trap of such a call. But then a call inside it (calloc of musl calls malloc) is not seen as nested, and could be
 * sampled a second time. So the first calls of each function in each process image are followed. If one of them
 * contains another call, all later calls of the function are followed, too.
 */

#define FOLLOWED_CALLS 64
#define FOLLOWED_FOR_GOOD (1u << 31)
#define FOLLOWED_SITES 4096 /* a power of two; enough to distinguish 64 sites of 32 images */

extern __u32 followed_sites[FOLLOWED_SITES]; /* number of calls followed, and FOLLOWED_FOR_GOOD */

/* realloc(NULL, n) counts as another function than realloc(p, n): in glibc only the first one calls malloc. */
static __always_inline __u32 *followed_site(__u64 image, __u32 site, __u64 pointer)
{
	return &followed_sites[(image * 128 + site * 2 + !pointer) & (FOLLOWED_SITES - 1)];
}

static __always_inline bool site_is_followed(__u64 image, __u32 site, __u64 pointer)
{
	__u32 *at = followed_site(image, site, pointer);
	__u32 seen = *(volatile __u32 *)at;

	if (seen >= FOLLOWED_CALLS)
		return seen & FOLLOWED_FOR_GOOD;
	__sync_fetch_and_add(at, 1);
	return true;
}

/* Notes that a call contains another call. */
static __always_inline void call_has_nested(struct process *process, const struct call *call)
{
	__u32 *at, seen;

	if (!is_selective())
		return;
	at = followed_site(call->image, call->site, call->pointer);
	seen = *(volatile __u32 *)at;
	if (seen & FOLLOWED_FOR_GOOD)
		return;
	if (seen >= FOLLOWED_CALLS)
		__sync_fetch_and_add(&process->loss[LOSS_nestings_late], 1);
	__sync_fetch_and_or(at, FOLLOWED_FOR_GOOD);
}

/* Calls that make mappings are always followed: they are few, and a new mapping removes the old blocks in its range. */
static __always_inline bool unwanted_is_followed(__u64 image, __u64 cookie, bool is_realloc,
						 __u64 pointer)
{
	if (!(cookie & COOKIE_IN_SESSION) || is_mapping(COOKIE_LAYER(cookie)))
		return true;
	if (is_realloc && pointer && may_be_known(COOKIE_LAYER(cookie), pointer))
		return true;
	return site_is_followed(image, COOKIE_SITE(cookie), pointer);
}

enum pending {
	PENDING_NONE = 0,
	PENDING_HERE,	   /* on the same stack as the new call */
	PENDING_ELSEWHERE, /* on another stack */
};

/* Whether the recording of its process had a gap since the entry, so that its return may have been missed. */
static __always_inline bool is_from_before_gap(const struct process *process,
					       const struct call *call)
{
	return call->resumed_ns != resumed_ns(process);
}

/*
 * Whether a call has ended. For a call from before a gap, memory does not show it: the place of its return address
 * may hold any other data by now. The kernel has a list of the return addresses that return probes have hijacked.
 */
static __always_inline bool call_is_over(const struct process *process, struct thread *thread, const struct call *call,
					 __u64 sp, __u32 site)
{
	if (!is_from_before_gap(process, call))
		return call_is_stale(thread, call, sp, site);
	return call->return_address || !hijacked_return(call->sp) ||
	       (sp > call->sp && same_stack(call->sp, sp)); /* left by a longjmp */
}

/*
 * Whether the thread is inside an earlier call of a layer. Drops a call that cannot return any more. A global
 * function, because it runs for each layer.
 */
__weak __noinline int pending_in(struct thread *thread, __u32 layer, __u64 sp, __u32 site)
{
	struct process *process = process_of_thread(thread);
	struct call *call;

	if (!process || !thread || layer >= LAYER_NR)
		return PENDING_NONE;
	call = &thread->layer[layer].call;
	if (!call_is_over(process, thread, call, sp, site))
		return same_stack(call->sp, sp) ? PENDING_HERE : PENDING_ELSEWHERE;
	call_abandon(process, call);
	return PENDING_NONE;
}

static __always_inline bool is_in_call(const struct thread *thread)
{
	return thread && (thread->layer[LAYER_POOL].call.sp || thread->layer[LAYER_HEAP].call.sp ||
			  (settings.has_mappings && thread->layer[LAYER_MAPPING].call.sp));
}

/* The same as pending_in(), but cheap if no call is pending. */
static __always_inline enum pending call_pending(struct thread *thread, __u32 layer, __u64 sp,
						 __u64 cookie)
{
	return thread->layer[layer].call.sp ? pending_in(thread, layer, sp, COOKIE_SITE(cookie)) :
					      PENDING_NONE;
}

/* The pending call jumped to another function, so the block will come from the domain of that function. */
static __always_inline void call_passes_on(struct call *call, __u64 sp, __u64 cookie)
{
	if (call->sp == sp)
		call->domain = COOKIE_DOMAIN(cookie);
}

/*
 * Whether a new call is not followed because another call is pending. On the same stack the new call is internal to
 * the allocator and counts with the outer call, unless the outer call is of a lower layer. On another stack (signal
 * handler, coroutine) it is a separate call. Such a call is not followed in any layer, because hijacking its return
 * address could kill the target. A global function, as a pending call is rare.
 */
__weak __noinline int call_is_declined(struct process *process, struct thread *thread, __u64 sp, __u64 cookie)
{
	for (__u32 i = 0; process && thread && i < layer_nr(); i++) {
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

/* Whether a free is inside a pending call. A free on another stack than the pending call is a normal free. */
__weak __noinline int free_is_nested(struct process *process, struct thread *thread, __u64 sp, __u64 cookie)
{
	for (__u32 i = 0; process && thread && i < layer_nr(); i++) {
		if (i < COOKIE_LAYER(cookie) ||
		    call_pending(thread, i, sp, cookie) != PENDING_HERE)
			continue;
		process_add_counter(process, COUNTER_nested_calls, 1);
		return true;
	}
	return false;
}

/* Whether the programs see the return of the call without hijacking its return address. */
static __always_inline bool is_by_ret(const struct process *process, __u64 cookie)
{
	return process->by_ret || cookie & COOKIE_BY_RET;
}

/* The call returns an error number, and stores the block's address where its argument points. */
static __always_inline bool is_stored(enum call_shape shape)
{
	return shape == SHAPE_POSIX_MEMALIGN || shape == SHAPE_USER_OUT;
}

/*
 * Whether the calls of the heap are left out, because the account has what CPython allocates: other processes share the
 * probes of the heap. A recording of one process has none there.
 */
static __always_inline bool heap_is_hidden(const struct process *process, __u32 layer)
{
	return settings.has_python && layer == LAYER_HEAP && process->python_memory == process->memory;
}

/* The thread has no account. If its process runs in memory that the owner has left, the process counts the loss. */
static __noinline int lose_ownerless(void)
{
	struct process *process = own_process();

	if (process && process->memory_of)
		process_count_loss(process, LOSS_calls_ownerless);
	return 1;
}

/* Records a free of a thread without memory for its state. A global function, so that its callers need less stack. */
__weak __noinline int free_unthreaded(__u32 layer, __u64 address)
{
	struct process *process = current_process();

	if (process && layer != LAYER_MAPPING && !is_clearing(process))
		record_free(process, layer, NULL, &(struct freed){ .address = address });
	return 0;
}

/*
 * A global function, because many places call it. Returns 0, or 1 if the return of the call is not needed. A session
 * returns that 1, so that the kernel leaves the return address alone.
 */
__weak __noinline int call_begin(struct thread *thread, __u64 cookie, __u64 sp, __u64 size,
				 __u64 pointer)
{
	struct process *process = process_of_thread(thread);
	enum call_shape shape = COOKIE_SHAPE(cookie);
	__u32 layer = COOKIE_LAYER(cookie);
	struct calls *calls;
	bool is_unwanted;
	__u32 rate;

	if (!process || layer >= LAYER_NR)
		return lose_ownerless();
	if (heap_is_hidden(process, layer))
		return 1;
	if (!thread || (cookie & COOKIE_IN_SESSION && is_intercepted(bpf_get_current_task_btf()))) {
		process_count_loss(process, thread ? LOSS_calls_declined : LOSS_threads_dropped);
		if (pointer && !is_stored(shape)) /* a realloc, most likely successful */
			free_unthreaded(layer, pointer);
		return 1;
	}
	if (is_in_call(thread) && call_is_declined(process, thread, sp, cookie))
		return 1;
	calls = &thread->layer[layer];
	is_unwanted = !block_is_wanted(process, thread, layer, size, &rate) || is_of_sampler(process, layer);
	if (is_unwanted) {
		calls->newest = 0; /* another block comes now */
		if (!unwanted_is_followed(process->image, cookie, shape_is_realloc(shape), pointer))
			return 1;
	}
	calls->call_cnt++;
	order_memory(&calls->call_cnt);
	calls->call = (struct call){
		.sp = sp,
		.return_address = is_by_ret(process, cookie) ? return_address_at_entry(thread, sp) : 0,
		.image = process->image,
		.size = size,
		.pointer = pointer,
		.old_bytes = is_mapping(layer) && shape == SHAPE_MREMAP ? thread->old_bytes : 0,
		.begin_ns = is_mapping(layer) && shape == SHAPE_MREMAP ? bpf_ktime_get_ns() : 0,
		.resumed_ns = resumed_ns(process),
		.shape = shape,
		.site = COOKIE_SITE(cookie),
		.domain = COOKIE_DOMAIN(cookie),
		.layer = layer,
		.is_unwanted = is_unwanted,
		.rate = rate,
	};
	if (is_realloc(&calls->call))
		realloc_begin(process, &calls->call);
	return 0;
}

/* Results from -ERRORS up are errors, not blocks: MAP_FAILED, -errno of a raw system call, errors of a pool. */
#define ERRORS 4095

/* Finds the block that a call has made, or 0. Returns false if the result cannot be read. */
static __always_inline bool call_result(const struct call *call, __u64 returned, __u64 *ret_address)
{
	if (call->shape == SHAPE_XALLOCX)
		returned = returned < call->size ? 0 : call->pointer;
	if (!is_stored(call->shape)) {
		*ret_address = returned >= -(__u64)ERRORS ? 0 : returned;
		return true;
	}
	*ret_address = 0;
	if ((__u32)returned) /* an error number of type int: the upper half may hold anything */
		return true;
	return !bpf_probe_read_user(ret_address, sizeof(*ret_address), (void *)call->pointer);
}

static __always_inline void call_finish(const struct caller *caller, struct process *process,
					struct walk *walk, struct calls *calls, __u64 returned, bool is_python)
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
	if (call->is_unwanted || is_of_sampler(process, call->layer) || heap_is_hidden(process, call->layer) ||
	    !is_recording(process)) { /* in a gap its free would be missed */
		if (address && is_mapping(call->layer))
			range_remove(address, call->size, 0, 0, now);
	} else if (address) {
		record_allocation(caller, process, walk, calls, address, now, is_python);
	} else {
		process_add_counter(process, COUNTER_failed_calls, 1);
	}
}

/* Whether a realloc holds an old block. Such a call is finished even if the recording has paused meanwhile. */
static __always_inline bool took_block(const struct process *process, const struct call *call)
{
	return (call->has_old || call->has_dropped) && !is_clearing(process);
}

/*
 * Ends a call at its return. While the probes of a process are still being placed, an unmatched return belongs to a call from before the
 * recording, and is no loss.
 */
static __always_inline int end_call_of(struct thread *thread, __u64 cookie, __u64 returned, bool is_python)
{
	struct process *process = process_of_thread(thread);
	__u32 layer = COOKIE_LAYER(cookie);
	struct calls *calls;

	if (!process || layer >= LAYER_NR)
		return 0;
	if (!is_in_call(thread)) {
		if (is_recording(process) && !process->by_ret) /* else a `ret` probe saw the return */
			process_count_loss(process, LOSS_returns_unmatched);
		return 0;
	}
	calls = &thread->layer[layer];
	if (calls->call.sp != thread->caller.sp - RETURN_POPS || calls->call.site != COOKIE_SITE(cookie))
		return 0; /* the return of a nested call */
	if (is_from_before_gap(process, &calls->call))
		return 0; /* the call of this return is unknown; the next call drops the pending one */
	if (is_recording(process) || took_block(process, &calls->call))
		call_finish(&thread->caller, process, &thread->walk, calls, returned, is_python);
	calls->call.sp = 0;
	return 0;
}

/* A global function, so that the programs themselves need none of the 512 bytes of stack. */
__weak __noinline int call_end(struct thread *thread, __u64 cookie, __u64 returned)
{
	return end_call_of(thread, cookie, returned, false);
}

/*
 * At a `ret`, or a jump in place of it: the call whose return address is at the stack pointer returns. Nested calls and
 * internal functions of the allocator come by here, too. A global function, because calls of several layers may end at
 * one `ret` if one jumps to another.
 */
__weak __noinline int end_by_ret_in(struct thread *thread, __u32 layer, __u64 returned)
{
	struct process *process = process_of_thread(thread);
	struct calls *calls;

	if (!process || !thread || layer >= LAYER_NR)
		return 0;
	calls = &thread->layer[layer];
	thread->caller.ip = calls->call.return_address;
	if (is_from_before_gap(process, &calls->call) || !return_is_kept(thread, &calls->call, calls->call.sp))
		call_abandon(process, &calls->call);
	else if (is_recording(process) || took_block(process, &calls->call))
		call_finish(&thread->caller, process, &thread->walk, calls, returned, false);
	calls->call.sp = 0;
	return 0;
}

static __always_inline int call_end_by_ret(struct pt_regs *ctx, struct thread *thread, __u64 returned)
{
	if (!process_of_thread(thread) || !thread)
		return 0;
	thread->caller = (struct caller){ 0, PT_REGS_SP(ctx) + RETURN_POPS, PT_REGS_FP(ctx), CALLER_RETURN, 0 };
	for (int i = layer_nr() - 1; i >= 0; i--) {
		const struct call *call = &thread->layer[i].call;

		if (call->sp && call->sp == thread->caller.sp - RETURN_POPS && call->return_address)
			end_by_ret_in(thread, i, returned);
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
	if (!process || !is_recording(process) || layer >= LAYER_NR || heap_is_hidden(process, layer))
		return 0;
	if (!thread && is_mapping(layer))
		process_count_loss(process, LOSS_threads_dropped);
	if (!thread)
		return free_unthreaded(layer, address);
	if (is_in_call(thread) && free_is_nested(process, thread, sp, cookie))
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

/* A global function, so that the programs need little stack. */
__weak __noinline int reported_record(struct thread *thread, __u64 cookie, __u64 address, __u64 size)
{
	struct process *process = process_of_thread(thread);
	__u32 layer = COOKIE_LAYER(cookie), rate;
	struct block_key key;
	struct calls *calls;
	struct block block;

	if (!process || !thread || layer >= LAYER_NR || !is_recording(process) ||
	    (is_in_call(thread) && call_is_declined(process, thread, thread->caller.sp, cookie)))
		return 0;
	calls = &thread->layer[layer];
	if (!address)
		process_add_counter(process, COUNTER_failed_calls, 1);
	if (!address || !block_is_wanted(process, thread, layer, size, &rate)) {
		calls->newest = 0;
		return 0;
	}
	key = block_key_of(address, process->image, layer);
	block = (struct block){
		.size = size,
		.birth_ns = bpf_ktime_get_ns(),
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.rate = rate,
		.domain = COOKIE_DOMAIN(cookie),
		.epoch = read_epoch(),
	};
	calls->newest = record_block(&thread->caller, process, &thread->walk, &key, &block, calls->newest, block.epoch, false) ?
				address : 0;
	return 0;
}

/* A user allocator reports by a USDT probe a block that it has given out, or that it takes back. */
static __noinline int enter_reported(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	__u64 address = 0, size = 0, count = 0;
	__u32 row = COOKIE_USER_CALL(cookie);

	if (usdt_argument(ctx, row, 0, &address) || usdt_argument(ctx, row, 1, &size) || usdt_argument(ctx, row, 2, &count))
		return sampler_lose(thread, LOSS_results_unreadable);
	if (COOKIE_SHAPE(cookie) == SHAPE_REPORTED_FREE)
		return free_begin(thread, cookie, PT_REGS_SP(ctx), address, 0);
	if (!thread)
		return sampler_lose(thread, LOSS_threads_dropped);
	thread->caller = caller_at(ctx, CALLER_EXACT);
	return reported_record(thread, cookie, address, product(count, size));
}

#endif
