/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RECORD_BPF_H
#define ALLOCSNAP_RECORD_BPF_H

/*
 * The effect of an allocation, a free and a realloc on the account.
 *
 * A block enters after the allocator has returned it, and leaves before the allocator frees it. So an address that
 * passes from one thread to another is never attributed to the wrong call. Between its entry and its return a call
 * is pending on its thread. A call inside a pending call of the same layer is internal to the allocator and counts
 * once, with the outermost call. Examples: operator new → malloc, if both are probed; realloc(NULL) → malloc in
 * glibc. A call inside a pending call of a lower layer (malloc → mmap) counts, too.
 */

#include "account/admit.bpf.h"
#include "account/account.bpf.h"
#include "account/ranges.bpf.h"
#include "python/frames.bpf.h"
#include "unwind/unwind.bpf.h"

/* Tracebacks in the map, also tracebacks of images that have ended. The loader subtracts each one that it removes. */
extern __u64 tracebacks_held;
extern __u64 tracebacks_most; /* the most tracebacks of one process in the map; the loader sets it */

static __always_inline bool has_traceback_share(const struct process *process)
{
	return (__s64)process->tracebacks < (__s64)tracebacks_most;
}

static __always_inline void count_traceback(struct process *process)
{
	__sync_fetch_and_add(&process->tracebacks, 1);
	__sync_fetch_and_add(&tracebacks_held, 1);
}

/*
 * Takes the current stack, the interpreter's, or both. is_python: for a block of CPython. It is a constant wherever
 * this is inlined, so that only Python's programs have the code for it.
 */
static __always_inline void traceback_fill(struct process *process, struct walk *walk, bool is_python)
{
	if (is_python && settings.python_frames == PYTHON_FRAMES_PYTHON)
		python_traceback_take(walk, process);
	else if (is_python && settings.python_frames == PYTHON_FRAMES_MIXED)
		mixed_traceback_take(walk, process);
	else
		traceback_take(walk);
}

/* Whether only the words that walk->reads has decide the traceback. */
static __always_inline bool is_decided_by_reads(bool is_python)
{
	return settings.unwinder != UNWINDER_FP && !(is_python && settings.python_frames != PYTHON_FRAMES_NATIVE);
}

static __always_inline void walk_begin(struct walk *walk, const struct caller *caller, const struct process *process)
{
	walk->image = process->image;
	walk->salt = mix(mix(settings.hash_seed ^ process->image) ^ (process->code_cnt + code_generation));
	walk->frame = caller_frame(caller);
	walk_reads_begin(walk);
}

/* Puts the current stack into the map of tracebacks. Returns it and its key; NULL and 0 if it does not fit. */
static __always_inline struct traceback *traceback_record(const struct caller *caller,
							  struct process *process,
							  struct walk *walk, __u64 *ret_hash, bool is_python)
{
	struct traceback *known;
	struct thread *thread;
	__u64 hash;
	int err;

	walk_begin(walk, caller, process);
	hash = is_decided_by_reads(is_python) ? find_known_walk(walk) : 0;
	known = hash ? bpf_map_lookup_elem(&tracebacks, &hash) : NULL;
	if (!known) {
		traceback_fill(process, walk, is_python);
		hash = traceback_hash(&walk->traceback, process->image);
		if (is_decided_by_reads(is_python))
			walk_becomes_known(walk, hash);
		known = bpf_map_lookup_elem(&tracebacks, &hash);
	}
	*ret_hash = hash;
	if (known)
		return known;
	walk->traceback.image = process->image;
	thread = current_thread(); /* before kernel 6.4 a map accepts no other memory */
	err = thread && has_traceback_share(process) ?
	      bpf_map_update_elem(&tracebacks, &hash, &thread->walk.traceback, BPF_NOEXIST) : -ENOSPC;
	if (!err)
		count_traceback(process);
	if (!err || err == -EEXIST)
		return bpf_map_lookup_elem(&tracebacks, &hash);
	process_count_loss(process, LOSS_tracebacks_dropped);
	*ret_hash = 0;
	return NULL;
}

/* Returns 0, or an error: no room. Blocks that a mapping covers leave first. newest: see record_temporary(). */
static __always_inline long block_enter(struct process *process, struct block_key *key,
					struct block *block, __u64 newest, bool has_share, __u64 now)
{
	return is_mapping(block_key_layer(key)) ?
		       range_put(key, block, newest, has_share, now) :
		       block_put(process, key, block, has_share, now);
}

/*
 * Enters a new block, for allocations of every kind: fills in its traceback, and counts it. Returns whether there was
 * room for it.
 */
static __always_inline bool record_block(const struct caller *caller, struct process *process, struct walk *walk,
					 struct block_key *key, struct block *block, __u64 newest, __u64 now, bool is_python)
{
	struct traceback *traceback = traceback_record(caller, process, walk, &block->traceback, is_python);
	struct estimate estimate;

	if (block_enter(process, key, block, newest, has_block_share(process), now))
		return false;
	estimate = estimate_of(key, block);
	count_entered(process, estimate);
	if (!traceback)
		return true;
	__sync_fetch_and_add(&traceback->churn.allocations, estimate.blocks);
	__sync_fetch_and_add(&traceback->churn.allocated_bytes, estimate.bytes);
	return true;
}

static __always_inline void record_allocation(const struct caller *caller, struct process *process,
					      struct walk *walk, struct calls *calls,
					      __u64 address, __u64 now, bool is_python)
{
	struct block_key key = block_key_of(address, process->image, calls->call.layer);
	struct block block = {
		.size = calls->call.size,
		.birth_ns = bpf_ktime_get_ns(),
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.rate = calls->call.rate,
		.domain = calls->call.domain,
		.epoch = now,
	};

	calls->newest = record_block(caller, process, walk, &key, &block, calls->newest, now, is_python) ? address : 0;
}

/*
 * Whether a free is inside a free of the same address by another function. The block has left with the outer free.
 * Frees have no return probe, so only the start of the outer free is known. A function that jumps back to its own
 * start (free of glibc since 2.42, if the thread has no cache yet) comes by again with the same stack pointer. Its
 * cookie says that it may do so.
 */
static __always_inline bool free_is_passed_on(const struct freed *outer, const struct freed *freed)
{
	if (outer->address != freed->address)
		return false;
	return outer->site != freed->site ? freed->sp <= outer->sp :
					   freed->restarts && freed->sp == outer->sp;
}

/*
 * Everything that a forked process allocated itself is in its account, so any other block came with the fork. If only
 * some blocks are recorded (is_selective(), has_sampler()), an unknown block may be one that was not chosen: it is
 * not counted.
 */
static __always_inline void count_unknown_free(struct process *process)
{
	if (is_selective() || has_sampler(process))
		return;
	if (process->is_forked)
		process_add_counter(process, COUNTER_inherited_frees, 1);
	else
		process_add_counter(process, COUNTER_unknown_frees, 1);
}

/*
 * Returns whether the account had the block, or a note of it. newest: the newest block of the thread. A global function:
 * the deepest chains of calls do not need its stack, and the verifier checks it once.
 */
__weak __noinline int free_block(struct process *process, __u32 layer, __u64 address, __u64 newest)
{
	struct estimate estimate;
	struct block_key key;
	struct block block;

	if (!process)
		return false;
	key = block_key_of(address, process->image, layer);
	if (!block_take(process, &key, &block, read_epoch()))
		return dropped_free(process, &key);
	estimate = estimate_of(&key, &block);
	count_removed_block(process, estimate);
	if (newest == address && block.thread == (__u32)bpf_get_current_pid_tgid())
		record_temporary(process, &block, estimate);
	return true;
}

/* calls is NULL if the state of the thread has no memory. */
static __always_inline void record_free(struct process *process, __u32 layer, struct calls *calls,
					const struct freed *freed)
{
	__u64 newest = calls ? calls->newest : 0;
	bool is_known = is_mapping(layer) ?
				range_remove(freed->address, freed->bytes, newest, 0, read_epoch()) :
				free_block(process, layer, freed->address, newest);

	if (is_known) {
		; /* counted */
	} else if (calls && free_is_passed_on(&calls->freed, freed)) {
		process_add_counter(process, COUNTER_nested_calls, 1);
	} else {
		count_unknown_free(process);
	}
	if (calls)
		calls->freed = *freed;
}

/*
 * realloc frees the old block only if it succeeds. Then another thread may get its address before realloc returns. So
 * the old block leaves the map at entry. If the call fails, the block comes back with its traceback and birth. A global
 * function: the verifier walks it once, and not for each way to it.
 */
__weak __noinline int realloc_begin(struct process *process, struct call *call)
{
	struct block_key key;
	struct block old = {};

	if (!process || !call || !call->pointer)
		return 0;
	key = block_key_of(call->pointer, call->image, call->layer);
	call->has_old = is_mapping(call->layer) ?
				range_take(&key, call->old_bytes, &old, read_epoch()) :
				block_take(process, &key, &old, read_epoch());
	call->old = old;
	if (!call->has_old)
		call->has_dropped = dropped_take(process, &key, &call->old.size);
	return 0;
}

/* Hands the old block over, because the call is about to give it up. */
static __always_inline void realloc_hand_over(struct process *process, const struct call *call,
					      __u64 now)
{
	const struct block_key key = block_key_of(call->pointer, call->image, call->layer);

	if (call->has_old)
		block_hand_over(process, &key, &call->old, now);
}

/* The old block counts only if no new image has begun since the entry. */
static __always_inline bool realloc_has_old(const struct process *process, const struct call *call)
{
	return call->has_old && !is_clearing(process) && call->image == process->image;
}

static __always_inline bool realloc_has_dropped(const struct process *process,
						const struct call *call)
{
	return call->has_dropped && !is_clearing(process) && call->image == process->image;
}

/* Whether mremap took a part of a block, or several blocks. Such blocks could not leave at entry. */
static __always_inline bool realloc_cuts(const struct call *call, __u64 now)
{
	return is_mapping(call->layer) &&
	       range_remove(call->pointer, call->old_bytes, 0, call->begin_ns, now);
}

static __always_inline void count_old_removed(struct process *process, const struct call *call)
{
	struct block_key key = block_key_of(call->pointer, call->image, call->layer);

	count_removed_block(process, estimate_of(&key, &call->old));
}

/* Counts the old block as freed. Returns whether it was known. */
static __always_inline bool realloc_free_old(struct process *process, struct call *call, __u64 now)
{
	realloc_hand_over(process, call, now);
	if (realloc_has_old(process, call))
		count_old_removed(process, call);
	else if (realloc_has_dropped(process, call))
		dropped_count_freed(process, call->old.size);
	else
		return false;
	return true;
}

static __always_inline void realloc_succeed(struct process *process, struct call *call, __u64 now)
{
	if (!realloc_free_old(process, call, now) && call->pointer && !realloc_cuts(call, now))
		count_unknown_free(process);
}

static __always_inline void realloc_fail(struct process *process, struct call *call, __u64 now)
{
	struct block_key key = block_key_of(call->pointer, call->image, call->layer);
	struct block old = call->old;

	realloc_hand_over(process, call, now);
	if (realloc_has_old(process, call) && block_enter(process, &key, &old, 0, true, now))
		count_old_removed(process, call);
	else if (realloc_has_dropped(process, call))
		dropped_put_back(process, &key, call->old.size);
}

static __always_inline bool shape_is_realloc(enum call_shape shape)
{
	return shape == SHAPE_REALLOC || shape == SHAPE_REALLOCARRAY || shape == SHAPE_MREMAP ||
	       shape == SHAPE_REALLOCF || shape == SHAPE_XALLOCX || shape == SHAPE_USER_REALLOC;
}

static __always_inline bool is_realloc(const struct call *call)
{
	return shape_is_realloc(call->shape);
}

/* A call that would not have changed the account is no loss. */
static __always_inline void lose_unreturned(struct process *process, const struct call *call)
{
	if (!call->is_unwanted || call->has_old || call->has_dropped)
		process_count_loss(process, LOSS_calls_unreturned);
}

/* Ends a call whose return will never be seen. A realloc has most likely succeeded. */
static __always_inline void call_abandon(struct process *process, struct call *call)
{
	lose_unreturned(process, call);
	if (is_realloc(call) && !realloc_free_old(process, call, read_epoch()) && call->pointer) {
		if (is_mapping(call->layer)) /* searching for its blocks would need too much stack */
			process_count_loss(process, LOSS_ranges_missed);
		else
			count_unknown_free(process);
	}
	call->sp = 0;
}

/*
 * The thread ends inside the call. It was killed, most likely with its whole process. A realloc has most likely not
 * freed its old block yet, unless another block has the address by now.
 */
static __always_inline void call_cut_off(struct process *process, struct call *call)
{
	struct block_key key = block_key_of(call->pointer, process->image, call->layer);
	struct block old = call->old;
	long err;

	lose_unreturned(process, call);
	realloc_hand_over(process, call, read_epoch());
	call->sp = 0;
	if (!is_realloc(call))
		return;
	if (realloc_has_dropped(process, call))
		dropped_put_back(process, &key, call->old.size);
	if (!realloc_has_old(process, call))
		return;
	if (is_mapping(call->layer))
		err = range_put_back(&key, &old);
	else
		err = dropped_find(process, &key) ?
		      -EEXIST : block_put_back(&key, &old);
	if (err)
		count_old_removed(process, call);
	if (err && err != -EEXIST)
		dropped_enter(process, &key, call->old.size);
}

#endif
