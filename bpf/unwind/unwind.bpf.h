/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_BPF_H
#define ALLOCSNAP_UNWIND_BPF_H

/*
 * Takes the traceback at a return probe. There the registers are the caller's, so the first frame is the call itself
 * and is never missing. At a sampler's probe the first frame is the place of the probe (is_exact). At the entry of a function the kernel's walk skips the direct caller unless the function
 * starts with `push %rbp`, and malloc does not.
 *
 * Unwind tables give the callers (unwind_walk.bpf.h). The walk by frame pointers is our own, too. bpf_get_stack()
 * follows whatever rbp points at. In code without frame pointers rbp is an ordinary register, mostly not even an
 * address on the stack, and its junk would make thousands of distinct tracebacks.
 */

#include "maps.bpf.h"

extern const volatile struct settings settings;

/*
 * The loader raises this when any code has been mapped, or when it publishes a table. Cached rules of addresses are
 * invalid then.
 */
extern __u64 code_generation;

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): each input bit reaches every output bit. */
static __always_inline __u64 mix(__u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/*
 * The key of a stack: 64 bits, never 0, with a random seed for each recording. 100,000 distinct stacks collide with
 * probability 3e-10, and a target cannot prepare a collision, so the key alone identifies the stack. The frames go by
 * turns to two hashes, which the CPU computes at the same time. A global function, so that the verifier checks it only
 * once.
 */
__weak __noinline __u64 traceback_hash(struct traceback *traceback, __u64 image)
{
	__u64 even = mix(settings.hash_seed ^ image), odd = ~settings.hash_seed, hash;
	__u32 limit = settings.traceback_limit, nframe;

	if (!traceback)
		return 0;
	nframe = traceback->nframe;
	even = mix(even ^ traceback->total_nframe ^ (__u64)traceback->end << 32);
	even += traceback->guessed[0] ^ traceback->guessed[1];
	odd = mix(odd ^ traceback->exact[0] ^ traceback->exact[1]);
	if (nframe < limit && nframe < TRACEBACK_LIMIT_MAX)
		traceback->pc[nframe] = 0; /* if their number is odd */
	for (__u32 i = 0; i < limit && i < nframe; i += 2) {
		even = mix(even ^ traceback->pc[i]) + i;
		if (i + 1 < limit)
			odd = mix(odd ^ traceback->pc[i + 1]) + i;
	}
	hash = even ^ odd;
	return hash ? hash : 1;
}

#define STEPS_MAX 512 /* total_nframe counts at most this many frames */
#define FIRST_PAGE 4096

#include "unwind/unwind_walk.bpf.h"

static __always_inline void traceback_by_frame_pointers(struct walk *walk)
{
	__u64 frame_pointer = walk->frame.fp, above = walk->frame.sp, next, return_address;
	__u32 nr = 1;

	walk->traceback.pc[0] = walk->frame.pc;
	walk->window_words = 0;
	if (frame_pointer_is_sane(frame_pointer, above))
		window_read(walk, above);
	for (; nr < STEPS_MAX; nr++) {
		if (!frame_pointer_is_sane(frame_pointer, above) ||
		    window_word(walk, frame_pointer, &next) ||
		    window_word(walk, frame_pointer + 8, &return_address) ||
		    return_address < FIRST_PAGE)
			break;
		if (nr < settings.traceback_limit && nr < TRACEBACK_LIMIT_MAX)
			walk->traceback.pc[nr] = return_address;
		above = frame_pointer + 16;
		frame_pointer = next;
	}
	walk->traceback.total_nframe = nr;
}

/* Fills walk->traceback from the registers at a return, or at a sampler's probe (is_exact: 0 or 1). */
static __always_inline void traceback_take(struct walk *walk, __u64 ip, __u64 sp, __u64 frame_pointer, __u32 is_exact)
{
	struct traceback *traceback = &walk->traceback;

	traceback->end = 0;
	traceback->by_tables = settings.unwinder != UNWINDER_FP;
	traceback->guessed[0] = traceback->guessed[1] = 0;
	traceback->exact[0] = is_exact;
	traceback->exact[1] = 0;
	walk->frame = (struct unwind_frame){ .pc = ip, .sp = sp, .fp = frame_pointer, .is_exact = is_exact };
	if (traceback->by_tables)
		traceback_by_tables(walk);
	else
		traceback_by_frame_pointers(walk);
	traceback->nframe = traceback->total_nframe < settings.traceback_limit ?
				    traceback->total_nframe : settings.traceback_limit;
}

#endif
