/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_BPF_H
#define ALLOCSNAP_UNWIND_BPF_H

/*
 * The traceback at a return probe, by frame pointers. There the registers are the caller's, so
 * the first frame is the call itself and never missing; at a function's entry the kernel's walk
 * skips the direct caller unless the function starts with `push %rbp`, and malloc does not.
 *
 * The walk is our own and not bpf_get_stack(): that follows whatever rbp points at. In code
 * without frame pointers rbp is an ordinary register, mostly not even an address on the stack;
 * its junk would be thousands of distinct tracebacks. And one read of 2 KiB of stack costs less
 * than a read for each frame.
 */

#include "maps.bpf.h"

extern const volatile struct settings settings;

/*
 * Raised by the loader when other code has come to lie where some code was: what is recorded from
 * then on is another traceback, though its addresses are the same.
 */
extern __u64 mapping_generation;

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): each input bit reaches every output bit. */
static __always_inline __u64 mix(__u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/*
 * 64 bits, seeded at random for each recording: 100,000 distinct stacks collide with
 * probability 3e-10, and a target cannot prepare a collision, so the key alone stands for the
 * stack. Never 0. Global, so that the verifier looks into it once.
 */
__weak __noinline __u64 traceback_hash(struct traceback *traceback, __u64 image)
{
	__u64 hash = mix(settings.hash_seed ^ image);

	if (!traceback)
		return 0;
	hash = mix(hash ^ traceback->total_nframe ^ mapping_generation << 32);
	for (__u32 i = 0; i < TRACEBACK_LIMIT_MAX && i < traceback->nframe; i++)
		hash = mix(hash ^ traceback->pc[i]) + i;
	return hash ? hash : 1;
}

#define STEPS_MAX 512		    /* frames that are counted in total_nframe */
#define FRAME_BYTES_MAX (1ULL << 20) /* of one function's stack frame */

/* What `push %rbp; mov %rsp, %rbp` leaves behind a call. */
struct frame_record {
	__u64 frame_pointer; /* of the caller */
	__u64 return_address;
};

/* Stacks grow down: a caller's frame lies above, aligned, and not out of all proportion. */
static __always_inline bool frame_pointer_is_sane(__u64 frame_pointer, __u64 above)
{
	return !(frame_pointer & 7) && frame_pointer - above < FRAME_BYTES_MAX;
}

static __always_inline bool frame_read(struct walk *walk, __u64 frame_pointer,
				       struct frame_record *ret)
{
	__u64 at = (frame_pointer - walk->window_start) / sizeof(walk->window[0]);

	if (at < WINDOW_WORDS - 1) {
		at &= WINDOW_WORDS - 1;
		ret->frame_pointer = walk->window[at];
		ret->return_address = walk->window[at + 1];
		return true;
	}
	return !bpf_probe_read_user(ret, sizeof(*ret), (void *)frame_pointer);
}

/* Near the end of the stack's mapping it can't be read whole, and then not used. */
static __always_inline void window_read(struct walk *walk, __u64 sp)
{
	walk->window_start = sp;
	if (bpf_probe_read_user(walk->window, WINDOW_WORDS * sizeof(walk->window[0]), (void *)sp))
		walk->window_start = ~0ULL;
}

#define FIRST_PAGE 4096

/* Fills walk->traceback, from the registers at a return. Global, as the hash is. */
__weak __noinline int traceback_take(struct walk *walk, __u64 ip, __u64 sp, __u64 frame_pointer)
{
	struct frame_record frame;
	__u64 above = sp;
	__u32 nr = 1;

	if (!walk)
		return 0;
	walk->traceback.pc[0] = ip;
	if (frame_pointer_is_sane(frame_pointer, above))
		window_read(walk, sp);
	for (; nr < STEPS_MAX; nr++) {
		if (!frame_pointer_is_sane(frame_pointer, above) ||
		    !frame_read(walk, frame_pointer, &frame) || frame.return_address < FIRST_PAGE)
			break;
		if (nr < settings.traceback_limit && nr < TRACEBACK_LIMIT_MAX)
			walk->traceback.pc[nr] = frame.return_address;
		above = frame_pointer + sizeof(frame);
		frame_pointer = frame.frame_pointer;
	}
	walk->traceback.total_nframe = nr;
	walk->traceback.nframe = nr < settings.traceback_limit ? nr : settings.traceback_limit;
	return 0;
}

#endif
