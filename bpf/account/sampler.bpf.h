/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_BPF_H
#define ALLOCSNAP_SAMPLER_BPF_H

/*
 * Processes that sample their own heap. A library in the process chooses blocks, and passes a probe with each of them
 * and its weight, and another probe before such a block is freed (USDT of provider otel_memory). Then only samples cost
 * a trap.
 *
 *	otel_memory:alloc(pointer, size, weight)	weight: the bytes that the sample stands for
 *	otel_memory:free(pointer)
 *
 * The books of such a process (has_sampler()) have no other new blocks of the heap. Probes on malloc, which the files
 * may have for other processes, still take away blocks that entered before the sampler was noticed: each stands for
 * itself. So the sums are right however late that was. The first sample tells it as well as the loader does.
 */

#include <bpf/bpf_tracing.h>
#include "account/argument.bpf.h"
#include "account/record.bpf.h"
#include "account/thread.bpf.h"

extern struct sampler_call sampler_calls[SAMPLER_CALLS_MAX]; /* filled before the probes with their cookies */

#define SAMPLE_EXCESS_MAX (1ULL << 40) /* a sample does not stand for more bytes beyond its own */

/* Whether blocks of this layer come from the process's own sampler only. */
static __always_inline bool is_of_sampler(const struct process *process, __u32 layer)
{
	return layer == LAYER_HEAP && has_sampler(process);
}

/* 0; else it cannot be read. */
static __noinline int sample_argument(struct pt_regs *ctx, __u32 row, __u32 nr, __u64 *ret)
{
	if (row >= SAMPLER_CALLS_MAX || nr >= SAMPLER_ARGUMENTS)
		return 1;
	return argument_value(ctx, &sampler_calls[row].argument[nr], ret);
}

/*
 * The bytes that a sample stands for; 0: it is not recorded. A sampler that tells the number of samples in a block times
 * the mean distance may tell less than the block's size. Such a block stands for itself, as often as that share says:
 * on average it adds what was told.
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

	if (!process || !thread || !is_recording(process) || !address)
		return 0;
	if (!has_sampler(process))
		process->sampler_image = process->image;
	if (size < settings.min_size || (settings.max_size && size > settings.max_size))
		return 0;
	key = block_key_of(address, process->image, LAYER_HEAP);
	block = (struct block){
		.size = size,
		.birth_ns = bpf_ktime_get_ns(),
		.thread = (__u32)bpf_get_current_pid_tgid(),
		.epoch = read_epoch(),
		.weight = weight_of_sample(process, size, weight),
	};
	if (block.weight)
		record_block(&thread->caller, process, &thread->walk, &key, &block, 0, block.epoch, false);
	return 0;
}

__weak __noinline int sample_free(struct thread *thread, __u64 address)
{
	struct process *process = process_of_thread(thread);

	if (process && is_recording(process) && address && may_be_known(LAYER_HEAP, address))
		free_block(process, LAYER_HEAP, address, 0);
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
	__u32 row = COOKIE_CUSTOM_CALL(cookie);
	__u64 address = 0, size = 0, weight = 0;

	if (sample_argument(ctx, row, 0, &address))
		return sampler_lose(thread, LOSS_samples_refused);
	if (COOKIE_SHAPE(cookie) == SHAPE_SAMPLE_FREE)
		return sample_free(thread, address);
	if (!thread)
		return sampler_lose(thread, LOSS_threads_dropped);
	if (sample_argument(ctx, row, 1, &size) || sample_argument(ctx, row, 2, &weight))
		return sampler_lose(thread, LOSS_samples_refused);
	thread->caller = (struct caller){ PT_REGS_IP(ctx), PT_REGS_SP(ctx), PT_REGS_FP(ctx), CALLER_EXACT };
	return sample_record(thread, address, size, weight);
}

#endif
