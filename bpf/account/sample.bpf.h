/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLE_BPF_H
#define ALLOCSNAP_SAMPLE_BPF_H

/*
 * Sampling: which blocks are recorded, and how many blocks a recorded one stands for.
 *
 * Samples lie on the bytes that a thread allocates like the events of a Poisson process: the distance to the next
 * sample is exponentially distributed with mean S. A block of n bytes has a sample with probability
 * p = 1 - exp(-n/S), whatever came before it, so it stands for 1/p blocks and n/p bytes:
 *
 *	distance = -log(u) S          u is uniform in (0, 1)
 *	n/p      = n + S x/(exp(x) - 1)       x = n/S
 *
 * Both functions are tables in rodata with linear interpolation. All settings are in rodata, too: if every block is
 * recorded, the verifier removes all sampling code from the programs.
 *
 * With a budget the rate of a process changes while it runs. A call reads the rate once, when it is decided, and its
 * block keeps it. The distribution has no memory, so a new rate begins with a new distance.
 */

#include "account/layers.bpf.h"
#include "account/starts.bpf.h"

extern const volatile struct sample_tables sample_tables;

/* Whether blocks may be sampled: the rate of a budget is never 0 bytes. */
static __always_inline bool is_sampling(void)
{
	return settings.sample_bytes[SAMPLE_RATES - 1];
}

/* Whether only some blocks are recorded, so that a live block may be missing in the account without a loss. */
static __always_inline bool is_selective(void)
{
	return is_sampling() || settings.min_size || settings.max_size;
}

/* Whether a recorded block may stand for others. */
static __always_inline bool is_estimating(void)
{
	return is_sampling() || settings.has_pools;
}

static __always_inline __u64 sample_bytes_at(__u32 rate)
{
	return settings.sample_bytes[rate & (SAMPLE_RATES - 1)];
}

extern __u64 shared_sample_rate; /* the least rate of all processes that share their probes */

/* Threads decide at the same time: a bit that is set stays. */
static __always_inline void note_sample_rate(struct process *process, __u64 rate)
{
	__u64 bit = 1ULL << (rate & (SAMPLE_RATES - 1));

	if (rate && !(*(volatile __u64 *)&process->sample_rates_used & bit))
		__sync_fetch_and_or(&process->sample_rates_used, bit);
}

/* The rate that decides about the next block of a process. */
static __always_inline __u32 sample_rate_of(struct process *process)
{
	__u64 rate = *(volatile __u64 *)&process->sample_rate;
	__u64 least = process->follows ? *(volatile __u64 *)&shared_sample_rate : 0;

	if (rate < least)
		rate = least;
	note_sample_rate(process, rate);
	return rate;
}

#define LOG_2 2977044472ULL /* in units of 2^-32 */

/*
 * -log of the uniform number u = (2 × random + 1) / 2^33, in units of 2^-32. With u = 2^-k (1 - x) and x in [0, 1/2]
 * the result is k log 2 + x × ratio(x). So the relative error is the table's (below 1e-6), even for u near 1.
 */
static __always_inline __u64 minus_log(__u32 random)
{
	__u64 uniform = 2 * (__u64)random + 1;
	__u64 halvings = 32 - highest_bit(uniform);
	__u64 x = (1ULL << 33) - (uniform << halvings); /* in units of 2^-33 */
	__u64 step = x >> 24, part = x & 0xffffff;
	__u64 low, high;

	barrier_var(step); /* otherwise clang drops the check below, which the verifier needs */
	if (step > LOG_RATIO_STEPS)
		step = LOG_RATIO_STEPS;
	low = sample_tables.log_ratio[step];
	high = sample_tables.log_ratio[step + 1];
	return halvings * LOG_2 + (x * (low + ((high - low) * part >> 24)) >> (LOG_RATIO_SHIFT + 1));
}

/* Bytes from one sample to the next, at least 1. A global function like the next one, so that callers stay short. */
__weak __noinline __u64 draw_distance(__u64 mean)
{
	__u64 log = minus_log(bpf_get_prandom_u32());

	return 1 + (log * (mean >> 16) >> 16) + (log * (mean & 0xffff) >> 32);
}

/* The size that decides the chance of a sample: a block of 0 bytes counts as 1 byte. */
static __always_inline __u64 size_of_chance(__u64 size)
{
	return size ?: 1;
}

/* n/p in units of 2^-16. mean 0: every block is recorded. */
__weak __noinline __u64 bytes_stood_for(__u64 size, __u64 mean)
{
	__u64 n = size_of_chance(size);
	__u64 x, step, low, high;

	if (!mean || n / EXCESS_END >= mean)
		return n << 16;
	x = (n << (EXCESS_STEPS_SHIFT + 16)) / mean;
	step = x >> 16;
	barrier_var(step);
	if (step > EXCESS_STEPS)
		step = EXCESS_STEPS;
	low = sample_tables.excess[step];
	high = sample_tables.excess[step + 1];
	return (n << 16) + (mean * (low - ((low - high) * (x & 0xffff) >> 16)) >> (EXCESS_SHIFT - 16));
}

/* The amount that a block adds to the sums, and removes when it leaves. */
struct estimate {
	__u64 blocks, bytes;
	__u64 is_sample; /* it is counted as a sample, too */
};

/* A block that stands for itself. */
static __always_inline struct estimate estimate_of_one(__u64 bytes)
{
	return (struct estimate){ 1, bytes, is_estimating() };
}

/*
 * A weight is not a whole number. It is rounded up with the probability of its fraction, always in the same way for the
 * same block.
 */
static __always_inline struct estimate estimate_of(const struct block_key *key,
						   const struct block *block)
{
	__u64 bytes, chance;

	if ((!is_sampling() && !block->weight) || is_mapping(block_key_layer(key)))
		return estimate_of_one(block->size);
	bytes = block->weight ? block->weight << 16 : bytes_stood_for(block->size, sample_bytes_at(block->rate));
	chance = (key->address ^ block->birth_ns * 0xff51afd7ed558ccdULL) * 0x9e3779b97f4a7c15ULL >> 48;
	return (struct estimate){
		.blocks = (bytes / size_of_chance(block->size) + chance) >> 16,
		.bytes = block->size ? (bytes + chance) >> 16 : 0,
		.is_sample = 1,
	};
}

/* Whether the bytes of a call hold a sample. */
static __always_inline bool is_drawn(struct thread *thread, __u32 rate, __u64 size)
{
	__u64 mean = sample_bytes_at(rate), n = size_of_chance(size), distance;

	if (thread->sample_rate != rate)
		thread->sample_distance = 0;
	thread->sample_rate = rate;
	distance = thread->sample_distance ?: draw_distance(mean);
	thread->sample_distance = n < distance ? distance - n : draw_distance(mean);
	return n >= distance;
}

/* Decides whether the block of a call is recorded, and by which rate. Call it once for each outermost call. */
static __always_inline bool block_is_wanted(struct process *process, struct thread *thread, __u32 layer, __u64 size,
					    __u32 *ret_rate)
{
	__u32 rate;

	*ret_rate = 0;
	if (size < settings.min_size || (settings.max_size && size > settings.max_size))
		return false;
	if (!is_sampling() || is_mapping(layer))
		return true;
	rate = sample_rate_of(process);
	*ret_rate = rate;
	return !sample_bytes_at(rate) || is_drawn(thread, rate, size);
}

/* Whether the process's own sampler chooses which blocks of its heap are recorded (calls.bpf.h). */
static __always_inline bool has_sampler(const struct process *process)
{
	return *(const volatile __u64 *)&process->sampler_image == process->image;
}

/* ---- frees of blocks that are not in the account ---- */

static __always_inline __u64 *free_filter_at(__u32 layer, __u64 address)
{
	__u32 slot = free_filter_slot(address, layer, settings.free_filter_mask);

	return bpf_map_lookup_elem(&free_filter, &slot);
}

/* n is 1: a block, or a note of one, is about to enter. n is -1: it has left, or failed to enter. */
static __always_inline void free_filter_count(const struct block_key *key, __s64 n)
{
	__u64 *counter;

	if (!is_selective() || is_mapping(block_key_layer(key)))
		return;
	counter = free_filter_at(block_key_layer(key), key->address);
	if (counter)
		__sync_fetch_and_add(counter, n);
}

/* Whether a block that begins there may be in the account. Mappings are searched in another way. */
static __always_inline bool may_be_known(__u32 layer, __u64 address)
{
	__u64 *counter;

	if (!is_selective() || is_mapping(layer))
		return true;
	counter = free_filter_at(layer, address);
	return counter && *(volatile __u64 *)counter;
}

/* The number of blocks of a process in the account, each once. */
static __always_inline __u64 held_blocks(const struct process *process)
{
	return process->counter[is_estimating() || has_sampler(process) ? COUNTER_sampled_blocks :
									 COUNTER_current_blocks];
}

#endif
