/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_CREATIONS_BPF_H
#define ALLOCSNAP_PYTHON_CREATIONS_BPF_H

/*
 * An object begins: in a block that was just allocated, or in one that a free list has kept, which stayed live for the
 * allocator. tracemalloc gives the block the traceback of this moment (_PyTraceMalloc_NewReference()). So do these
 * programs, and the block gets the object's birth and thread.
 */

#include "python/python_calls.bpf.h"

/* The block of an object begins before it if its type says so. 0: the type cannot be read. */
static __always_inline __u64 block_of_object(const struct python_offsets *offsets, __u64 object)
{
	__u64 type, flags;

	if (bpf_probe_read_user(&type, sizeof(type), (void *)(object + offsets->object_type)) ||
	    bpf_probe_read_user(&flags, sizeof(flags), (void *)(type + PYTHON_TYPE_FLAGS)))
		return 0;
	if (flags & PYTHON_TYPE_HAS_GC)
		object -= offsets->object_header;
	return flags & PYTHON_TYPE_HAS_PREHEADER ? object - offsets->object_preheader : object;
}

/* A block that the account does not have is an older one, one that was not chosen, or none at all. */
__weak __noinline int python_retag(struct thread *thread, __u64 address)
{
	struct process *process = process_of_thread(thread);
	struct block_key key;
	struct block block;
	__u64 hash = 0, now;

	if (!process || !thread)
		return 0;
	key = block_key_of(address, process->image, LAYER_POOL);
	if (!nursery_has(&key) && !bpf_map_lookup_elem(&blocks, &key))
		return 0;
	traceback_record(&thread->caller, process, &thread->walk, &hash, true);
	now = read_epoch();
	if (!block_take(process, &key, &block, now))
		return 0;
	block.traceback = hash;
	block.birth_ns = bpf_ktime_get_ns();
	block.thread = (__u32)bpf_get_current_pid_tgid();
	block.epoch = now;
	if (block_put(process, &key, &block, true, now))
		count_removed_block(process, estimate_of(&key, &block));
	return 0;
}

__weak __noinline int python_create(struct thread *thread, __u64 object)
{
	struct process *process = process_of_thread(thread);
	struct python_process *python;
	__u64 address, fresh;

	if (!process || !is_recording(process))
		return 0;
	python = &process->python;
	if (!thread || !knows_python(process)) {
		process_count_loss(process, knows_python(process) ? LOSS_threads_dropped : LOSS_python_calls_early);
		return 0;
	}
	python_begin(process, thread);
	thread->walk.has_gil = true;
	settle_first(process, thread);
	address = block_of_object(&python->offsets, object);
	if (address)
		address -= python->hook_head;
	fresh = thread->python.fresh;
	thread->python.fresh = 0;
	if (!address)
		process_count_loss(process, LOSS_python_calls_unread);
	return address && address != fresh ? python_retag(thread, address) : 0;
}

#endif
