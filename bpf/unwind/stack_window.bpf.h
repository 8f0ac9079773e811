/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_STACK_WINDOW_BPF_H
#define ALLOCSNAP_STACK_WINDOW_BPF_H

/*
 * Reads the stack 2 KiB at a time. This costs little more than reading one word, and each frame needs two words.
 */

#include "maps.bpf.h"

#define WINDOW_BYTES (WINDOW_WORDS * 8)
#define PAGE_BYTES 4096

/* Near the end of the stack's mapping only the rest of the page can be read. */
__weak __noinline int window_read(struct walk *walk, __u64 sp)
{
	__u64 in_page = PAGE_BYTES - (sp & (PAGE_BYTES - 1));

	if (!walk)
		return 0;
	walk->window_start = sp;
	walk->window_words = WINDOW_WORDS;
	if (!bpf_probe_read_user(walk->window, WINDOW_BYTES, (void *)sp))
		return 0;
	walk->window_words = in_page / 8;
	barrier_var(in_page); /* otherwise clang compares the value it comes from, and the verifier loses the bound */
	if (in_page >= WINDOW_BYTES || bpf_probe_read_user(walk->window, in_page, (void *)sp))
		walk->window_words = 0;
	return 0;
}

static __always_inline bool window_has(struct walk *walk, __u64 address, __u64 *ret_word)
{
	__u64 offset = address - walk->window_start;
	__u64 at = offset / 8;

	if (at >= walk->window_words || offset & 7)
		return false;
	*ret_word = walk->window[at & (WINDOW_WORDS - 1)];
	return true;
}

/* Registers are saved below the return address, in the same frame. */
#define SAVED_BYTES 64

/* Reads a word of the stack into walk->word. An address above the window moves the window up. Returns 0 or an error. */
__weak __noinline int window_fetch(struct walk *walk, __u64 address)
{
	if (!walk)
		return -1;
	if (address - walk->window_start < 1ULL << 32)
		window_read(walk, address - SAVED_BYTES);
	if (window_has(walk, address, &walk->word))
		return 0;
	return bpf_probe_read_user(&walk->word, sizeof(walk->word), (void *)address);
}

static __always_inline int window_word(struct walk *walk, __u64 address, __u64 *ret_word)
{
	if (window_has(walk, address, ret_word))
		return 0;
	if (window_fetch(walk, address))
		return -1;
	*ret_word = walk->word;
	return 0;
}

#define FRAME_BYTES_MAX (1ULL << 20) /* largest stack frame of one function */

/* Stacks grow down: the caller's frame must lie above, aligned, and at most FRAME_BYTES_MAX away. */
static __always_inline bool frame_pointer_is_sane(__u64 frame_pointer, __u64 above)
{
	return !(frame_pointer & 7) && frame_pointer - above < FRAME_BYTES_MAX;
}

#endif
