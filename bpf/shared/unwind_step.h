/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_STEP_H
#define ALLOCSNAP_UNWIND_STEP_H

/*
 * The step from a function to its caller, by a rule. This header compiles for BPF and natively. A file that includes
 * it first defines
 *
 *	struct unwind_memory;
 *	static int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address,
 *				       bpf_u64 *ret_word);
 *
 * which returns 0, or another value with *ret_word unchanged.
 */

#include "shared/unwind_lookup.h"
#include "shared/unwind_types.h"

/*
 * The address whose rule holds for a frame. A call may be the last instruction of its function. Its return
 * address is then the first byte of the next function, or belongs to no function.
 */
UNWIND_INLINE bpf_u64 unwind_rule_address(const struct unwind_frame *frame)
{
	return frame->pc - !frame->is_exact;
}

/* Why a rule of this kind has no CFA, or UNWIND_GOES_ON. */
UNWIND_INLINE int unwind_end_of_kind(bpf_u32 cfa_kind)
{
	switch (cfa_kind) {
	case UNWIND_CFA_NONE:
		return UNWIND_NO_RULE;
	case UNWIND_CFA_ROOT:
		return UNWIND_ROOT;
	case UNWIND_CFA_UNSUPPORTED:
		return UNWIND_UNSUPPORTED;
	}
	return UNWIND_GOES_ON;
}

/* Whether a step by the rule depends on the frame pointer. */
UNWIND_INLINE int unwind_uses_fp(struct unwind_rule rule)
{
	const bpf_u32 kinds = 1 << UNWIND_CFA_FP | 1 << UNWIND_CFA_FP_DEREF | 1 << UNWIND_CFA_SWITCH;

	return (kinds >> rule.cfa_kind & 1) | (rule.fp_kind == UNWIND_FP_AT_FP);
}

/*
 * Computes the CFA behind a switch of stacks: *(*(sp + state) + end) - *(sp + depth) + above. The thread has left the
 * stack of this frame for the one that ends at the word at `end`; the word below that is where it begins.
 */
UNWIND_INLINE int unwind_switch_stack(struct unwind_rule rule, struct unwind_frame *frame,
				      struct unwind_memory *memory, bpf_u64 *ret_cfa)
{
	bpf_u64 state, end, start, depth, at = UNWIND_SWITCH_END(rule.cfa_off);

	if (unwind_memory__read(memory, frame->sp + rule.addend, &depth) ||
	    unwind_memory__read(memory, frame->sp + UNWIND_SWITCH_STATE(rule.cfa_off), &state) ||
	    unwind_memory__read(memory, state + at, &end) || unwind_memory__read(memory, state + at - 8, &start))
		return UNWIND_UNREADABLE;
	*ret_cfa = end - depth + UNWIND_SWITCH_ABOVE(rule.cfa_off);
	if (depth & 7 || *ret_cfa - start >= end - start)
		return UNWIND_BACKWARDS;
	frame->is_fp_lost |= frame->fp - *ret_cfa >= end - *ret_cfa; /* the stack has moved since */
	frame->left_sp = frame->sp;
	frame->sp = start;
	return UNWIND_GOES_ON;
}

/* Computes the CFA for the kinds that few functions have. */
UNWIND_INLINE int unwind_rare_cfa(struct unwind_rule rule, struct unwind_frame *frame,
				  struct unwind_memory *memory, bpf_u64 *ret_cfa)
{
	int needs_fp = rule.cfa_kind == UNWIND_CFA_FP || rule.cfa_kind == UNWIND_CFA_FP_DEREF;
	int end = unwind_end_of_kind(rule.cfa_kind);
	bpf_u64 cfa;

	if (end != UNWIND_GOES_ON)
		return end;
	if (needs_fp && frame->is_fp_lost)
		return UNWIND_NO_FP;
	if (!needs_fp && frame->is_sp_lost)
		return UNWIND_NO_RULE; /* as good as none: another guess goes on */
	if (rule.cfa_kind == UNWIND_CFA_SWITCH)
		return unwind_switch_stack(rule, frame, memory, ret_cfa);
	if (rule.cfa_kind == UNWIND_CFA_LEFT) {
		if (!frame->left_sp)
			return UNWIND_NO_RULE;
		frame->sp = frame->left_sp;
		frame->left_sp = 0;
	}
	cfa = (needs_fp ? frame->fp : frame->sp) + (bpf_u64)(long long)rule.cfa_off;
	if (rule.cfa_kind == UNWIND_CFA_PLT && (frame->pc & 15) >= rule.addend)
		cfa += 8;
	if (rule.cfa_kind == UNWIND_CFA_SP_DEREF || rule.cfa_kind == UNWIND_CFA_FP_DEREF) {
		if (unwind_memory__read(memory, cfa, &cfa))
			return UNWIND_UNREADABLE;
		cfa += rule.addend;
	}
	*ret_cfa = cfa;
	return UNWIND_GOES_ON;
}

#ifndef UNWIND_RARE_CFA
#define UNWIND_RARE_CFA unwind_rare_cfa
#endif

UNWIND_INLINE bpf_u64 unwind_fp_base(struct unwind_rule rule, const struct unwind_frame *frame,
				     bpf_u64 cfa)
{
	if (rule.fp_kind == UNWIND_FP_AT_CFA)
		return cfa;
	return rule.fp_kind == UNWIND_FP_AT_SP ? frame->sp : frame->fp;
}

/* Where the caller's frame pointer is saved; 0: nowhere. */
UNWIND_INLINE bpf_u64 unwind_fp_place(struct unwind_rule rule, struct unwind_frame *frame, bpf_u64 cfa)
{
	if (rule.fp_kind == UNWIND_FP_SAME)
		return 0;
	if (rule.fp_kind == UNWIND_FP_LOST || (rule.fp_kind == UNWIND_FP_AT_FP && frame->is_fp_lost)) {
		frame->is_fp_lost = 1;
		return 0;
	}
	frame->is_fp_lost = 0;
	return unwind_fp_base(rule, frame, cfa) + (bpf_u64)(long long)rule.fp_off;
}

/* Puts the caller's frame pointer and pc into the frame, where the return address is not below the CFA: arm64. */
UNWIND_INLINE int unwind_restore_link(struct unwind_rule rule, struct unwind_frame *frame,
				      struct unwind_memory *memory, bpf_u64 cfa)
{
	bpf_u64 place = unwind_fp_place(rule, frame, cfa);

	if (rule.return_kind == UNWIND_RETURN_IN_LINK) {
		if (!frame->link)
			return UNWIND_NO_FP;
		frame->pc = frame->link;
	} else if (rule.return_kind == UNWIND_RETURN_AT_CFA) {
		place = 0;
		if (unwind_memory__read(memory, cfa + (bpf_u64)(long long)rule.fp_off, &frame->pc))
			return UNWIND_UNREADABLE;
	} else if (!place) {
		return UNWIND_NO_FP;
	} else if (unwind_memory__read(memory, place + 8, &frame->pc)) {
		return UNWIND_UNREADABLE;
	}
	if (place && unwind_memory__read(memory, place, &frame->fp))
		return UNWIND_UNREADABLE;
	frame->pc = UNWIND_UNSIGNED(frame->pc);
	frame->link = 0;
	return UNWIND_GOES_ON;
}

#ifndef UNWIND_RESTORE_LINK
#define UNWIND_RESTORE_LINK unwind_restore_link
#endif

/* Puts the caller's frame pointer and pc into the frame. */
UNWIND_INLINE int unwind_restore(struct unwind_rule rule, struct unwind_frame *frame, struct unwind_memory *memory,
				 bpf_u64 cfa)
{
	bpf_u64 place;

	if (rule.return_kind != UNWIND_RETURN_BELOW_CFA)
		return UNWIND_RESTORE_LINK(rule, frame, memory, cfa);
	place = unwind_fp_place(rule, frame, cfa);
	return unwind_memory__read(memory, cfa - 8, &frame->pc) ||
	       (place && unwind_memory__read(memory, place, &frame->fp)) ? UNWIND_UNREADABLE : UNWIND_GOES_ON;
}

/* Steps out of a signal handler: the kernel saved the registers of the interrupted code, on any stack. */
UNWIND_INLINE int unwind_step_signal(struct unwind_rule rule, struct unwind_frame *frame,
				     struct unwind_memory *memory)
{
	bpf_u64 saved_sp = frame->sp + (bpf_u64)(long long)rule.cfa_off;
	bpf_u64 saved_fp = frame->sp + (bpf_u64)(long long)rule.fp_off;

	if (unwind_memory__read(memory, saved_sp, &frame->sp) ||
	    unwind_memory__read(memory, saved_sp + 8, &frame->pc) ||
	    unwind_memory__read(memory, saved_fp, &frame->fp))
		return UNWIND_UNREADABLE;
	if (rule.return_kind == UNWIND_RETURN_ABOVE_FP) {
		if (unwind_memory__read(memory, saved_fp + 8, &frame->link))
			return UNWIND_UNREADABLE;
		frame->link = UNWIND_UNSIGNED(frame->link);
	}
	frame->is_exact = 1;
	frame->is_fp_lost = 0;
	return UNWIND_GOES_ON;
}

/*
 * Replaces the frame by its caller's frame and returns UNWIND_GOES_ON. Any other result says why there is no next
 * frame, and the frame is invalid then. The CFA is the new sp, except after a signal frame. Only a frame that has saved
 * nothing may have its CFA at its own sp.
 */
UNWIND_INLINE int unwind_step(struct unwind_rule rule, struct unwind_frame *frame,
			      struct unwind_memory *memory)
{
	bpf_u64 cfa;
	int end;

	if (rule.cfa_kind == UNWIND_CFA_SIGNAL)
		return unwind_step_signal(rule, frame, memory);
	if (rule.cfa_kind == UNWIND_CFA_SP && !frame->is_sp_lost) {
		cfa = frame->sp + (bpf_u64)(long long)rule.cfa_off;
	} else {
		end = UNWIND_RARE_CFA(rule, frame, memory, &cfa);
		if (end != UNWIND_GOES_ON)
			return end;
	}
	if (cfa <= frame->sp && (cfa < frame->sp || rule.return_kind != UNWIND_RETURN_IN_LINK))
		return UNWIND_BACKWARDS;
	end = unwind_restore(rule, frame, memory, cfa);
	frame->sp = cfa;
	frame->is_sp_lost = 0;
	frame->is_exact = 0;
	return end;
}

#endif
