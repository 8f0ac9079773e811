/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLE_BPF_H
#define ALLOCSNAP_SAMPLE_BPF_H

/*
 * Which blocks are recorded, and how many a recorded one stands for.
 *
 * Samples lie on the bytes that a thread allocates as a Poisson process has them: the distance to the next
 * one is exponentially distributed with mean S. A block of n bytes has one with probability
 * p = 1 - exp(-n/S), whatever was before it, so it stands for 1/p blocks and n/p bytes:
 *
 *	distance = -log(u) S          u is uniform in (0, 1)
 *	n/p      = n + S x/(exp(x) - 1)       x = n/S
 *
 * Both functions are tables with straight lines in between, in rodata. All settings are, too: where every
 * block is recorded, the verifier takes all of this out of the programs.
 */

#include "maps.bpf.h"
#include "account/starts.bpf.h"

extern const volatile struct settings settings;
extern const volatile struct sample_tables sample_tables;

/* Whether blocks may be live that are in no book though all was seen. */
static __always_inline bool is_selective(void)
{
	return settings.sample_bytes || settings.min_size || settings.max_size;
}

#define LOG_2 2977044472ULL /* in 2^-32 */

/*
 * -log of the uniform (2 × random + 1) / 2^33, in 2^-32. With u = 2^-k (1 - x) and x in [0, 1/2] it is
 * k log 2 + x × ratio(x), so that the relative error is the table's (below 1e-6), also near 1.
 */
static __always_inline __u64 minus_log(__u32 random)
{
	__u64 uniform = 2 * (__u64)random + 1;
	__u64 halvings = 32 - highest_bit(uniform);
	__u64 x = (1ULL << 33) - (uniform << halvings); /* in 2^-33 */
	__u64 step = x >> 24, part = x & 0xffffff;
	__u64 low, high;

	barrier_var(step); /* or clang knows that it is not above, and the verifier does not */
	if (step > LOG_RATIO_STEPS)
		step = LOG_RATIO_STEPS;
	low = sample_tables.log_ratio[step];
	high = sample_tables.log_ratio[step + 1];
	return halvings * LOG_2 + (x * (low + ((high - low) * part >> 24)) >> (LOG_RATIO_SHIFT + 1));
}

/* Bytes from one sample to the next, 1 at least. Global, as are the next, so that callers stay short. */
__weak __noinline __u64 draw_distance(void)
{
	__u64 log = minus_log(bpf_get_prandom_u32()), mean = settings.sample_bytes;

	return 1 + (log * (mean >> 16) >> 16) + (log * (mean & 0xffff) >> 32);
}

/* Of one byte where nothing was asked for. */
static __always_inline __u64 size_of_chance(__u64 size)
{
	return size ?: 1;
}

/* n/p in 2^-16. */
__weak __noinline __u64 bytes_stood_for(__u64 size)
{
	__u64 n = size_of_chance(size), mean = settings.sample_bytes;
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

/* What a block adds to the sums, and takes away when it leaves. */
struct estimate {
	__u64 blocks, bytes;
};

/*
 * A weight is no whole number, and is rounded up as often as its fraction says: the same way each time
 * that it is asked of the same block.
 */
static __always_inline struct estimate estimate_of(const struct block_key *key,
						   const struct block *block)
{
	__u64 bytes, chance;

	if (!settings.sample_bytes || block_key_layer(key) == LAYER_MAPPING)
		return (struct estimate){ 1, block->size };
	bytes = bytes_stood_for(block->size);
	chance = (key->address ^ block->birth_ns * 0xff51afd7ed558ccdULL) * 0x9e3779b97f4a7c15ULL >> 48;
	return (struct estimate){
		.blocks = (bytes / size_of_chance(block->size) + chance) >> 16,
		.bytes = block->size ? (bytes + chance) >> 16 : 0,
	};
}

/* Whether one of the call's bytes is a sample. */
static __always_inline bool is_drawn(struct thread *thread, __u64 size)
{
	__u64 distance = thread->sample_distance ?: draw_distance();
	__u64 n = size_of_chance(size);

	thread->sample_distance = n < distance ? distance - n : draw_distance();
	return n >= distance;
}

/* Of an outermost call, once. */
static __always_inline bool block_is_wanted(struct thread *thread, __u32 layer, __u64 size)
{
	if (size < settings.min_size || (settings.max_size && size > settings.max_size))
		return false;
	return !settings.sample_bytes || layer == LAYER_MAPPING || is_drawn(thread, size);
}

/* ---- frees of blocks that are not in the books ---- */

static __always_inline __u64 *pairing_at(__u32 layer, __u64 address)
{
	__u32 slot = pairing_slot(address, layer, settings.pairing_mask);

	return bpf_map_lookup_elem(&pairing, &slot);
}

/* A block, or the note of one, is about to come (1), is gone or has not come (-1). */
static __always_inline void pairing_count(const struct block_key *key, __s64 n)
{
	__u64 *counter;

	if (!is_selective() || block_key_layer(key) == LAYER_MAPPING)
		return;
	counter = pairing_at(block_key_layer(key), key->address);
	if (counter)
		__sync_fetch_and_add(counter, n);
}

/* Whether a block that begins there may be in the books. What mappings cover is looked for otherwise. */
static __always_inline bool may_be_known(__u32 layer, __u64 address)
{
	__u64 *counter;

	if (!is_selective() || layer == LAYER_MAPPING)
		return true;
	counter = pairing_at(layer, address);
	return counter && *(volatile __u64 *)counter;
}

/* The blocks of a process that lie in the books. */
static __always_inline __u64 held_blocks(const struct process *process)
{
	return process->counter[settings.sample_bytes ? COUNTER_sampled_blocks : COUNTER_current_blocks];
}

#endif
