/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_KNOWN_WALKS_BPF_H
#define ALLOCSNAP_KNOWN_WALKS_BPF_H

/*
 * Stacks that were walked before. The registers at the begin, the rules of the code and the words that a walk reads decide
 * where it goes. So a walk leaves where it has read, and a sum of the words. A later one from the same place finds the
 * traceback by that sum, without a rule for each frame: those lie all over the rule cache.
 *
 * Functions save what their callers have in the register of the frame pointer, mostly something else, and different each
 * time. Such a word is a part of the sum only if a rule uses it.
 *
 * The key has the salt of the rule cache (unwind_rule.bpf.h), so both become invalid at once. A walk that depends on
 * more, as on a return address that the kernel keeps, leaves nothing.
 */

#include "maps.bpf.h"

#define FP_REGISTER 1 /* not an address */

static __always_inline __u64 walk_sum(__u64 sum, __u64 word, __u64 place)
{
	sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL + place;
	return sum ^ sum >> 32;
}

static __always_inline void walk_depends_on(struct walk *walk, __u64 place, __u64 word)
{
	__u64 nr = walk->reads.nr;

	walk->reads.place[nr & (READS_MAX - 1)] = place;
	walk->reads.nr = nr + 1;
	walk->reads.check = walk_sum(walk->reads.check, word, place);
}

#define READ_BYTES (256ULL << 10) /* above the stack pointer where it begins */

/* A global function, as walk_one() has little stack; without a branch, which would be another way for the verifier. */
__weak __noinline int walk_has_read(struct walk *walk, __u64 address, __u64 word)
{
	__u64 bytes;

	if (!walk)
		return 0;
	bytes = address - walk->begin_sp;
	walk->depends_on_more |= bytes / READ_BYTES | (bytes & 7);
	walk_depends_on(walk, bytes / 8 + 1, word);
	return 0;
}

__weak __noinline int walk_uses_fp(struct walk *walk, int uses)
{
	if (!walk || !uses)
		return 0;
	if (walk->fp_from == FP_REGISTER)
		walk_depends_on(walk, 0, walk->frame.fp);
	else if (walk->fp_from)
		walk_has_read(walk, walk->fp_from, walk->frame.fp);
	walk->fp_from = 0;
	return 0;
}

/* walk->frame and walk->salt are set. */
static __always_inline void walk_reads_begin(struct walk *walk)
{
	__u64 key = walk_sum(walk->salt, walk->frame.pc, walk->frame.is_exact);

	key = walk_sum(walk_sum(key, walk->frame.sp, 0), walk->frame.link, 0);
	walk->reads.key = walk->reads.check = key;
	walk->reads.nr = 0;
	walk->depends_on_more = 0;
	walk->begin_sp = walk->frame.sp;
	walk->fp_from = FP_REGISTER;
}

static __always_inline struct known_walk *known_walk_of(__u64 key)
{
	__u32 at = key >> (64 - KNOWN_WALKS_SHIFT);

	return bpf_map_lookup_elem(&known_walks, &at);
}

#define READS_TOGETHER 8

/* Adds some of the words to walk->reads.check. The verifier checks it once, as walk_some(). */
__weak __noinline int sum_some_reads(struct walk *walk, const struct known_walk *known, __u32 first)
{
	__u64 word;

	if (!walk || !known)
		return -1;
	for (__u32 i = 0; i < READS_TOGETHER && first + i < known->nr; i++) {
		__u64 place = known->place[(first + i) & (READS_MAX - 1)];

		if (!place)
			word = walk->frame.fp;
		else if (window_word(walk, walk->begin_sp + 8 * place - 8, &word))
			return -1;
		walk->reads.check = walk_sum(walk->reads.check, word, place);
	}
	return 0;
}

/* The key of the traceback that a walk would find, or 0: not known. */
__weak __noinline __u64 find_known_walk(struct walk *walk)
{
	const struct known_walk *known = walk ? known_walk_of(walk->reads.key) : NULL;
	__u64 traceback;
	bool is_known;

	if (!known || known->key != walk->reads.key)
		return 0;
	window_read(walk, walk->begin_sp);
	for (__u32 i = 0; i < READS_MAX && i < known->nr; i += READS_TOGETHER)
		if (sum_some_reads(walk, known, i))
			break;
	traceback = *(volatile __u64 *)&known->traceback; /* once: another CPU may write it just now */
	is_known = (walk->reads.check ^ known->check) == traceback;
	walk->reads.check = walk->reads.key;
	return is_known ? traceback : 0;
}

static __always_inline void walk_becomes_known(struct walk *walk, __u64 traceback)
{
	struct known_walk *known = known_walk_of(walk->reads.key);

	if (!known || walk->depends_on_more || walk->reads.nr > READS_MAX)
		return;
	walk->reads.traceback = traceback;
	walk->reads.check ^= traceback;
	*known = walk->reads;
}

#endif
