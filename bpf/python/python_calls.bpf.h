/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_CALLS_BPF_H
#define ALLOCSNAP_PYTHON_CALLS_BPF_H

/*
 * The effect of calls of CPython's allocators on the account. Its blocks are of the pool layer, whatever gives the memory.
 *
 *	small: pymalloc gives it; the address is known beforehand
 *	large or empty, and all of the raw domain: the C library's next function in this thread gives it (python_heap)
 *	realloc: in place, or a new block and a free
 *	a block that a library has from elsewhere, and reports: numpy's arrays (PyTraceMalloc_Track)
 *	with --sample pools, in place of the small ones: a pool when pymalloc takes it for a size class, as a sample that
 *	stands for all its bytes
 *
 * A profile-guided build has copies of the allocators' functions where they are called often. Such a place is probed at
 * the jump that chooses between the copy and a call by pointer; where the call goes by the pointer, the entry of that
 * function is probed. A function may call another one for the same block: that is counted once.
 */

#include <bpf/bpf_tracing.h>
#include "account/calls.bpf.h"
#include "python/frames.bpf.h"

/*
 * Predicts what CPython's allocator of small blocks will give (Objects/obmalloc.c): the head of a free list.
 * The thread holds the GIL until it has the block, so nothing can change. This saves the trap at the return.
 *
 *	usedpools[class] → pool: freeblock is the block
 *	no pool of that class: usable_arenas → freepools → the first block of that pool
 *	no free pool: usable_arenas → pool_address, which becomes one
 *	no arena: one will be made, by mmap: the address is known when the thread comes by again
 */

#define POOL_HEADER 48
#define SMALL_MAX 512
#define CLASS_BYTES 16
#define CLASS_OF(size) (((size) - 1) / CLASS_BYTES)

/* Offsets in struct pool_header, the same in CPython 3.7 to 3.14. */
#define POOL_FREEBLOCK 8 /* followed by nextpool */
#define POOL_NEXT 16
#define POOL_ARENA 32
#define POOL_CLASS 36

/* Offsets in struct arena_object. */
#define ARENA_POOL_ADDRESS 8
#define ARENA_FREEPOOLS 24
#define ARENA_OBJECT_BYTES 48

/* It stays where it is (CPython 3.12 on). 0: CPython has not made it yet. */
static __always_inline __u64 main_interpreter(struct python_process *python)
{
	if (!python->main_at)
		python->main_at = read_word(python->main_interpreter); /* each program finds the same */
	return python->main_at;
}

/* Where the allocator's variables begin. 0: nowhere. */
static __always_inline __u64 pools_base(struct python_process *python)
{
	__u64 at;

	if (!python->in_interpreter || python->pools_at)
		return python->pools_at;
	at = main_interpreter(python);
	if (!at)
		return 0;
	at += python->state;
	if (python->in_interpreter > 1)
		at = read_word(at);
	python->pools_at = at; /* each program finds the same */
	return at;
}

/* The first pool of a class with a free block, or 0. *ret_block: that block. */
static __always_inline __u64 pool_used(struct python_process *python, __u64 class, __u64 *ret_block)
{
	__u64 pool = read_word(pools_base(python) + python->used_pools + 2 * sizeof(pool) * class), header[2];

	if (!pool || bpf_probe_read_user(header, sizeof(header), (void *)(pool + POOL_FREEBLOCK)) || header[1] == pool)
		return 0;
	*ret_block = header[0];
	return pool;
}

/* The address that the next block of this size gets; 0: in a new arena. */
static __always_inline __u64 pymalloc_next(struct python_process *python, __u64 size)
{
	__u64 class = CLASS_OF(size), block = 0, arena, pool;

	if (pool_used(python, class, &block))
		return block;
	arena = read_word(pools_base(python) + python->usable_arenas);
	if (!arena)
		return 0;
	pool = read_word(arena + ARENA_FREEPOOLS);
	if (pool)
		return read_half(pool + POOL_CLASS) == class ? read_word(pool + POOL_FREEBLOCK) : pool + POOL_HEADER;
	pool = read_word(arena + ARENA_POOL_ADDRESS);
	return pool ? pool + POOL_HEADER : 0;
}

/* The pool that an address lies in; 0: it is none of pymalloc's blocks. */
static __always_inline __u64 pool_of(struct python_process *python, __u64 address)
{
	__u64 base = pools_base(python), pool = address & -python->pool_bytes, arena;
	__u32 nr = read_half(pool + POOL_ARENA);

	if (nr >= read_half(base + python->max_arenas))
		return 0;
	arena = read_word(read_word(base + python->arenas) + nr * (__u64)ARENA_OBJECT_BYTES);
	return arena && address - arena < python->arena_bytes ? pool : 0;
}

/* The room of the blocks of a pool. */
static __always_inline __u64 pool_block_bytes(__u64 pool)
{
	return (read_half(pool + POOL_CLASS) + 1ULL) * CLASS_BYTES;
}

extern struct python_call python_calls[PYTHON_CALLS_MAX]; /* filled before the probes with their cookies */

/* ---- the account ---- */

/*
 * The block that a small allocation will get enters the account, with the traceback of the interpreter. weight: the bytes
 * that it stands for; 0: it is no pool.
 */
__weak __noinline int python_record(struct thread *thread, __u64 address, __u64 size, __u64 rate, __u64 weight)
{
	struct process *process = process_of_thread(thread);
	struct block_key key;
	struct block block;
	struct calls *calls;

	if (!process || !thread)
		return 0;
	calls = &thread->layer[LAYER_POOL];
	key = block_key_of(address, process->image, LAYER_POOL);
	block = (struct block){
		.size = size,
		.birth_ns = bpf_ktime_get_ns(),
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.rate = rate,
		.domain = DOMAIN_PYTHON,
		.epoch = read_epoch(),
		.weight = weight,
	};
	calls->newest = record_block(&thread->caller, process, &thread->walk, &key, &block, calls->newest,
				     block.epoch, true) ? address : 0;
	thread->python.fresh = calls->newest;
	return 0;
}

/* Removes a block. Returns whether the account had it. */
static __always_inline bool python_remove(struct process *process, struct thread *thread, __u64 address)
{
	if (!may_be_known(LAYER_POOL, address))
		return true;
	return free_block(process, LAYER_POOL, address, thread ? thread->layer[LAYER_POOL].newest : 0);
}

static __always_inline void python_remove_old(struct process *process, struct thread *thread, __u64 address)
{
	if (!python_remove(process, thread, address))
		count_unknown_free(process);
	thread->python.freed = address;
}

/* ---- a block of a new arena ---- */

static __noinline int python_defer(struct process *process, struct python_process *python, struct thread *thread,
				   __u64 size, __u32 rate)
{
	struct python_deferred *deferred = &python->deferred;
	__u64 hash = 0;

	traceback_record(&thread->caller, process, &thread->walk, &hash, true);
	deferred->size = size;
	deferred->birth_ns = bpf_ktime_get_ns();
	deferred->traceback = hash;
	deferred->thread = (__u32)bpf_get_current_pid_tgid();
	deferred->rate = rate;
	return 0;
}

/* The address of the deferred block, or 0: the arena is not there yet. */
static __always_inline __u64 deferred_address(struct python_process *python)
{
	__u64 block, pool = pool_used(python, CLASS_OF(python->deferred.size + python->hook_bytes), &block);

	return pool ? pool + POOL_HEADER : 0;
}

/* Enters the deferred block, before anything else can happen to it. */
__weak __noinline int python_settle(struct process *process)
{
	struct python_process *python;
	struct traceback *traceback;
	struct estimate estimate;
	struct block_key key;
	struct block block;
	__u64 address;

	if (!process)
		return 0;
	python = &process->python;
	if (!knows_python(process) || !python->deferred.size)
		return 0;
	address = deferred_address(python);
	key = block_key_of(address, process->image, LAYER_POOL);
	block = (struct block){
		.size = python->deferred.size,
		.traceback = python->deferred.traceback,
		.birth_ns = python->deferred.birth_ns,
		.thread = python->deferred.thread,
		.rate = python->deferred.rate,
		.domain = DOMAIN_PYTHON,
		.epoch = read_epoch(),
	};
	python->deferred.size = 0;
	if (!address)
		process_count_loss(process, LOSS_python_blocks_unfound);
	if (!address || block_put(process, &key, &block, has_block_share(process), block.epoch))
		return 0;
	estimate = estimate_of(&key, &block);
	count_entered(process, estimate);
	traceback = bpf_map_lookup_elem(&tracebacks, &block.traceback);
	if (traceback) {
		__sync_fetch_and_add(&traceback->churn.allocations, estimate.blocks);
		__sync_fetch_and_add(&traceback->churn.allocated_bytes, estimate.bytes);
	}
	return 0;
}

/* Whether the thread runs in the main interpreter. Others have an allocator of their own. */
static __always_inline bool is_in_main(struct thread *thread, struct python_process *python)
{
	__u64 state;

	if (!python->in_interpreter)
		return true;
	state = python_thread_state(&thread->walk, python);
	return !state || read_word(state + python->offsets.tstate_interp) == main_interpreter(python);
}

/* Before a call of a domain for which the thread holds the GIL. */
static __always_inline void settle_first(struct process *process, struct thread *thread)
{
	if (process->python.deferred.size && is_in_main(thread, &process->python))
		python_settle(process);
}

/* Forgets pending requests of an earlier image. */
static __always_inline void python_begin(struct process *process, struct thread *thread)
{
	if (thread->python.image == process->image)
		return;
	thread->python = (struct python_thread){ .image = process->image };
}

/* ---- the operations ---- */

/* The C library's next function gives the block. Python asks it for one byte instead of none. */
static __always_inline int raw_expect(const struct python_process *python, struct thread *thread, __u64 size)
{
	thread->python.has_raw = true;
	thread->python.raw_size = size;
	thread->python.raw_bytes = size + python->hook_bytes ?: 1;
	return 0;
}

/*
 * Whether this is the malloc that a realloc calls for its own block: the next call of the thread, with the same size and
 * the same block to come. The account has that block, unless it was not chosen.
 */
static __always_inline bool is_granted(struct process *process, struct thread *thread, __u64 address, __u64 size)
{
	struct block_key key = block_key_of(address, process->image, LAYER_POOL);
	__u64 granted = thread->python.granted;

	thread->python.granted = 0;
	return address && address == granted && size == thread->python.granted_size &&
	       (is_selective() || nursery_has(&key) || bpf_map_lookup_elem(&blocks, &key));
}

/* address: where the block will be; 0: in a new arena. */
static __always_inline int python_enter(struct process *process, struct python_process *python, struct thread *thread,
					__u64 address, __u64 size)
{
	__u32 rate;

	if (block_is_wanted(process, thread, LAYER_POOL, size, &rate))
		return address ? python_record(thread, address, size, rate, 0) : python_defer(process, python, thread, size, rate);
	thread->layer[LAYER_POOL].newest = 0;
	return 0;
}

static __always_inline int python_allocate(struct process *process, struct python_process *python, struct thread *thread,
					   __u64 size)
{
	__u64 bytes = size + python->hook_bytes, address;

	if (bytes - 1 >= SMALL_MAX)
		return raw_expect(python, thread, size);
	thread->python.has_raw = false;
	address = pymalloc_next(python, bytes);
	if (!is_granted(process, thread, address, size))
		return python_enter(process, python, thread, address, size);
	process_add_counter(process, COUNTER_nested_calls, 1);
	return 0;
}

/* A realloc may call malloc for its block, which is seen, too. */
static __always_inline int python_grant(struct process *process, struct python_process *python, struct thread *thread,
					__u64 address, __u64 size)
{
	thread->python.granted = address;
	thread->python.granted_size = size;
	return python_enter(process, python, thread, address, size);
}

/* As pymalloc_realloc(): a block stays if it would not lose more than a quarter of its room. */
static __always_inline int python_reallocate(struct process *process, struct python_process *python,
					     struct thread *thread, __u64 old, __u64 size)
{
	__u64 pool = old ? pool_of(python, old) : 0, bytes = size + python->hook_bytes, room, address;

	if ((old && !pool) || bytes - 1 >= SMALL_MAX)
		raw_expect(python, thread, size);
	if (!old && bytes - 1 < SMALL_MAX)
		return python_grant(process, python, thread, pymalloc_next(python, bytes), size);
	if (!pool)
		return 0;
	room = pool_block_bytes(pool);
	python_remove_old(process, thread, old);
	if (bytes - 1 >= SMALL_MAX)
		return 0;
	address = bytes <= room && 4 * bytes > 3 * room ? old : pymalloc_next(python, bytes);
	return python_grant(process, python, thread, address, size);
}

/* Whether the thread is about to get the block of a new arena: until then it makes the arena. */
static __always_inline bool makes_arena(struct python_process *python)
{
	return python->deferred.size && python->deferred.thread == (__u32)bpf_get_current_pid_tgid() &&
	       !deferred_address(python);
}

/*
 * The functions of the raw domain. While an arena is made they serve the allocator itself. A large object passes the debug
 * hooks of both domains.
 */
static __always_inline int python_raw(struct python_process *python, struct thread *thread, __u64 size)
{
	if (makes_arena(python))
		return 0;
	if (!python->hook_bytes || !thread->python.has_raw || size != thread->python.raw_bytes)
		return raw_expect(python, thread, size);
	thread->python.raw_bytes += python->hook_bytes;
	return 0;
}

/* Whether the debug hook of the raw domain will come by for the same block. */
static __always_inline bool raw_hook_follows(struct python_process *python, __u32 domain, __u64 address)
{
	return python->hook_bytes && domain != PYTHON_RAW && address && !pool_of(python, address);
}

static __always_inline int python_free(struct process *process, struct thread *thread, __u64 address)
{
	if (!address)
		return 0;
	if (!python_remove(process, thread, address)) {
		if (thread && thread->python.freed == address)
			process_add_counter(process, COUNTER_nested_calls, 1);
		else
			count_unknown_free(process);
	}
	if (thread) {
		thread->python.freed = address;
		thread->python.granted = 0;
	}
	return 0;
}

/* A library reports a block of its own. If it does so again, the block has another size and traceback from then on. */
static __always_inline int python_track(struct process *process, struct python_process *python, struct thread *thread,
					__u64 address, __u64 size)
{
	if (!address)
		return 0;
	python_remove(process, thread, address);
	return python_enter(process, python, thread, address, size);
}

/*
 * pymalloc has taken a pool for a size class. The pool is a sample of the blocks of this class: a block of that size which
 * stands for all that fits into the pool.
 */
static __always_inline int pool_open(struct process *process, const struct python_process *python, struct thread *thread,
				     __u64 pool, __u64 class)
{
	__u64 size = (class + 1) * CLASS_BYTES;

	if (!pool || size > SMALL_MAX) {
		process_count_loss(process, LOSS_python_calls_unread);
		return 0;
	}
	if (size < settings.min_size || (settings.max_size && size > settings.max_size))
		return 0;
	python_record(thread, pool, size, 0, python->pool_bytes);
	thread->layer[LAYER_POOL].newest = 0; /* the pool's end is not the free of a block */
	return 0;
}

struct python_arguments {
	__u64 size, pointer;
};

static __always_inline bool operation_frees(__u32 operation)
{
	return operation == PYTHON_FREE || operation == PYTHON_UNTRACK || operation == PYTHON_POOL_CLOSE ||
	       operation == PYTHON_CODE_END;
}

static __always_inline int arguments_read(struct pt_regs *ctx, const struct python_call *call,
					  struct python_arguments *ret)
{
	__u64 count;

	if (operation_frees(call->operation))
		return argument_value(ctx, &call->pointer, &ret->pointer);
	if (argument_value(ctx, &call->size, &ret->size) || argument_value(ctx, &call->pointer, &ret->pointer) ||
	    argument_value(ctx, &call->count, &count))
		return 1;
	if (call->operation == PYTHON_CALLOC)
		ret->size = product(count, ret->size);
	return 0;
}

static __noinline int python_read(struct pt_regs *ctx, __u64 cookie, struct python_arguments *ret)
{
	__u32 row = COOKIE_USER_CALL(cookie);

	return row < PYTHON_CALLS_MAX ? arguments_read(ctx, &python_calls[row], ret) : 1;
}

/* A global function, so that the programs themselves need little stack. */
__weak __noinline int python_apply(struct thread *thread, __u64 cookie, __u64 size, __u64 pointer)
{
	struct process *process = process_of_thread(thread);
	__u32 row = COOKIE_USER_CALL(cookie), operation;
	struct python_process *python;
	bool frees;

	if (!process || row >= PYTHON_CALLS_MAX)
		return 0;
	operation = python_calls[row].operation;
	frees = operation_frees(operation);
	if (operation == PYTHON_FREE || operation == PYTHON_CODE_END)
		code_retire(process, pointer);
	if (!is_recording(process) || operation == PYTHON_CODE_END)
		return 0;
	python = &process->python;
	if (!knows_python(process)) {
		process_count_loss(process, LOSS_python_calls_early);
		return 0;
	}
	if (pointer && operation < PYTHON_OPERATION_NR)
		pointer -= python->hook_head; /* the account has the blocks of the allocators */
	if (operation == PYTHON_FREE && raw_hook_follows(python, python_calls[row].domain, pointer))
		return 0;
	if (frees && !thread)
		return python_free(process, NULL, pointer);
	if (!thread) {
		process_count_loss(process, LOSS_threads_dropped);
		return 0;
	}
	python_begin(process, thread);
	thread->python.fresh = 0;
	/* A call of the raw domain may serve one of the others, for a large block. */
	thread->walk.has_gil = python_calls[row].domain != PYTHON_RAW || (thread->python.has_raw && thread->walk.has_gil);
	if (python_calls[row].domain == PYTHON_RAW && operation < PYTHON_FREE)
		return python_raw(python, thread, size);
	if (operation == PYTHON_MALLOC && size == python->deferred.size && makes_arena(python)) {
		process_add_counter(process, COUNTER_nested_calls, 1); /* a realloc makes this call, for its block */
		return 0;
	}
	if (python_calls[row].domain != PYTHON_RAW)
		settle_first(process, thread);
	if (frees)
		return python_free(process, thread, pointer);
	if (operation == PYTHON_TRACK)
		return python_track(process, python, thread, pointer, size);
	if (!is_in_main(thread, python)) {
		process_count_loss(process, LOSS_python_interpreters);
		return 0;
	}
	if (operation == PYTHON_POOL_OPEN)
		return pool_open(process, python, thread, pointer, size);
	if (operation == PYTHON_REALLOC)
		return python_reallocate(process, python, thread, pointer, size);
	return python_allocate(process, python, thread, size);
}

static __noinline int python_lose(struct thread *thread)
{
	struct process *process = process_of_thread(thread);

	if (process && is_recording(process))
		process_count_loss(process, LOSS_python_calls_unread);
	return 0;
}

/* The debug hooks of all domains may call the raw domain's. The context, the first argument, begins with a letter. */
static __always_inline bool is_of_raw(struct pt_regs *ctx)
{
	char letter = 0;

	bpf_probe_read_user(&letter, sizeof(letter), (void *)PT_REGS_PARM1(ctx));
	return letter == 'r';
}

/* Whether the call takes place here, and not by a pointer. */
static __always_inline bool is_called_here(struct pt_regs *ctx, __u64 cookie)
{
	__u32 row = COOKIE_USER_CALL(cookie);

	return row < PYTHON_CALLS_MAX && (!python_calls[row].asks_zf || ZERO_FLAG(ctx)) &&
	       (!python_calls[row].asks_letter || is_of_raw(ctx));
}

/* The registers at the place of a probe in CPython, or where a function of the C library returns to it. */
static __always_inline void python_note_place(struct pt_regs *ctx, struct thread *thread, enum caller_kind kind)
{
	if (!thread)
		return;
	thread->caller = caller_at(ctx, kind);
	thread->walk.thread_state = 0;
}

int python_create(struct thread *thread, __u64 object); /* creations.bpf.h */

static __always_inline int enter_python(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	struct python_arguments arguments = {};

	if (!is_called_here(ctx, cookie))
		return 0;
	python_note_place(ctx, thread, CALLER_EXACT);
	if (python_read(ctx, cookie, &arguments))
		return python_lose(thread);
	if (COOKIE_SHAPE(cookie) == SHAPE_PYTHON_CREATION)
		return python_create(thread, arguments.pointer);
	return python_apply(thread, cookie, arguments.size, arguments.pointer);
}

/* ---- the C library ---- */

/*
 * The entry of a function of the C library, with its own arguments. Only a call that serves a request of Python is
 * recorded, with the size that Python has asked for.
 */
static __always_inline int enter_python_heap(struct thread *thread, __u64 cookie, __u64 sp, __u64 size, __u64 old)
{
	thread->python.has_raw = false;
	if (size != thread->python.raw_bytes)
		return 1;
	return call_begin(thread, cookie | COOKIE_IN_SESSION, sp, thread->python.raw_size, old);
}

/* As call_end(). */
__weak __noinline int python_call_end(struct thread *thread, __u64 cookie, __u64 returned)
{
	return end_call_of(thread, cookie, returned, true);
}

#endif
