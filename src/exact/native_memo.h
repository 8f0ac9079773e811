/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_NATIVE_MEMO_H
#define ALLOCSNAP_EXACT_NATIVE_MEMO_H

/* The memo of a thread: the frames of a walk before, and whether the words that it has read are the same now. */

#include "exact/native_stacks.h"

static inline bool is_changed(const struct books_native *native, int i)
{
	return word_at(native->place[i].sp - sizeof(uint64_t)) != native->place[i].pc;
}

static inline bool is_special(const struct books_native *native, int i)
{
	return native->special[i / 64] >> i % 64 & 1;
}

/* Whether it was found by words that are not the same now, or by others than its return address and fp. */
static bool is_specially_changed(const struct books_native *native, int i)
{
	const struct books_frame_rest *rest = &native->rest[i];

	return rest->flags & (BOOKS_FRAME_UNCHECKED | BOOKS_FRAME_EXACT) || word_at(rest->fp_at) != rest->fp;
}

/* Whether one of the frames [0, from] is special; from may be -1. Some frames that are farther in may count, too. */
static inline bool has_special(const struct books_native *native, int from)
{
	uint64_t bits = 0;

	for (int i = 0; i <= from >> 6; i++)
		bits |= native->special[i];
	return bits;
}

/*
 * Reads no word that a walk would not read. Another stack may lie there now, that ends before the last one; and the word below
 * a signal's stack pointer may be on no stack.
 */
static __attribute__((noinline)) int first_changed_one_by_one(const struct books_native *native, int at)
{
	int i = at - 1;

	while (i >= 0 && !(is_special(native, i) && is_specially_changed(native, i)) && !is_changed(native, i))
		i--;
	return i + 1;
}

/*
 * The frame at `at` is one of now. Returns 0 if all further out are as they were; otherwise the frames [result, at] are, and
 * the one before them is not.
 */
static inline int first_changed(const struct books_native *native, int at)
{
	int i = at - 1;

	if (unlikely(!is_on_lasting_stack(native)) || unlikely(has_special(native, i)))
		return first_changed_one_by_one(native, at);
	while (i >= 3 && !(is_changed(native, i) | is_changed(native, i - 1) | is_changed(native, i - 2) | is_changed(native, i - 3)))
		i -= 4;
	while (i >= 0 && !is_changed(native, i))
		i--;
	return i + 1;
}

static inline bool is_frame_of_memo(const struct books_native *native, int i, const struct books_native_frame *frame)
{
	const struct books_place *place = &native->place[i];
	const struct books_frame_rest *rest = &native->rest[i];

	return place->sp == frame->sp && place->pc == frame->pc &&
	       !((rest->flags | frame->flags) & (BOOKS_FRAME_EXACT | BOOKS_FRAME_NONE)) &&
	       !((rest->flags ^ frame->flags) & (BOOKS_FRAME_GUESSED | BOOKS_FRAME_FP_LOST)) &&
	       (!(rest->flags & BOOKS_FRAME_NEEDS_FP) || rest->fp == frame->fp);
}

static inline void remember_frame(struct books_native *native, int at, const struct books_native_frame *frame, uint32_t node)
{
	native->place[at] = (struct books_place){ frame->sp, frame->pc };
	native->rest[at] = (struct books_frame_rest){ frame->fp, frame->fp_at, node, frame->flags };
	if (unlikely(frame->flags & (BOOKS_FRAME_UNCHECKED | BOOKS_FRAME_EXACT)) ||
	    (unlikely(frame->flags & BOOKS_FRAME_NEEDS_FP) && frame->fp_at))
		native->special[at / 64] |= UINT64_C(1) << at % 64;
}

/* Frames from this one on are no more. */
static inline void forget_special(struct books_native *native, int from)
{
	native->special[from / 64] &= (UINT64_C(1) << from % 64) - 1;
	for (int i = from / 64 + 1; i < BOOKS_NATIVE_DEEPEST / 64; i++)
		native->special[i] = 0;
}

/*
 * walk[n] is the frame at `at`, and frames [other, at] are as they were: they follow in walk[]. The memo
 * checks an fp only where a frame needed it, so each fp is read again. Returns the place of the last one.
 */
static int take_from_memo(struct books_native *native, int n, int at, int other)
{
	for (int i = at - 1; i >= other; i--) {
		const struct books_frame_rest *rest = &native->rest[i];
		struct books_native_frame *last = &native->walk[n++];

		last[1] = (struct books_native_frame){ native->place[i].sp, native->place[i].pc, rest->fp, rest->fp_at, 0, rest->flags };
		if (rest->fp_at) {
			last[1].fp = word_at(rest->fp_at);
		} else if (!(rest->flags & BOOKS_FRAME_FP_LOST)) {
			last[1].fp = last->fp;
			last[1].flags |= last->flags & BOOKS_FRAME_FP_LOST;
		}
	}
	return n;
}

#endif
