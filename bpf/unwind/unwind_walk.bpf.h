/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_WALK_BPF_H
#define ALLOCSNAP_UNWIND_WALK_BPF_H

/*
 * The stack walk by unwind tables. One step is a global function, called in a loop: the verifier checks it once,
 * instead of once for each step.
 */

#include "unwind/unwind_rule.bpf.h"
#include "unwind/stack.bpf.h"
#include "unwind/stack_window.bpf.h"

struct unwind_memory {
	struct walk walk;
};

static __always_inline int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address,
					       bpf_u64 *ret_word)
{
	return window_word(&memory->walk, address, ret_word);
}

#define UNWIND_RARE_CFA(rule, frame, memory, ret_cfa) walk_rare_cfa(&(memory)->walk, ret_cfa)
static int walk_rare_cfa(struct walk *walk, bpf_u64 *ret_cfa);
#include "shared/unwind_step.h"

/* A global function, so that the verifier checks it once, and not for each way that leads on. */
__weak __noinline int walk_find_cfa(struct walk *walk)
{
	struct unwind_rule rule;
	int end;

	if (!walk)
		return UNWIND_NO_RULE;
	__builtin_memcpy(&rule, &walk->rule, sizeof(rule));
	end = unwind_rare_cfa(rule, &walk->frame, (struct unwind_memory *)walk, &walk->word);
	if (rule.cfa_kind >= UNWIND_CFA_SWITCH)
		window_read(walk, walk->word - SAVED_BYTES);
	return end;
}

static __always_inline int walk_rare_cfa(struct walk *walk, bpf_u64 *ret_cfa)
{
	int end = walk_find_cfa(walk);

	*ret_cfa = walk->word;
	return end;
}

/*
 * Guesses the caller from the frame that `push %rbp; mov %rsp, %rbp` makes. This is for code without any information.
 * If the frame pointer cannot be right, the result `end` of the tables stays.
 */
static __always_inline int step_by_frame_pointer(struct walk *walk, int end)
{
	struct unwind_frame *frame = &walk->frame;
	__u64 at = frame->fp;

	if (frame->is_fp_lost)
		return UNWIND_NO_FP;
	if (!frame_pointer_is_sane(at, frame->sp))
		return end;
	if (window_word(walk, at, &frame->fp) || window_word(walk, at + 8, &frame->pc))
		return UNWIND_UNREADABLE;
	frame->sp = at + 16;
	frame->is_exact = 0;
	walk->guessed = end;
	return UNWIND_GOES_ON;
}

/* A return probe, of allocsnap or of another tool, has replaced a return address by its trampoline. */
static __noinline int restore_return_address(struct walk *walk)
{
	__u64 return_address = hijacked_return(walk->frame.sp - 8);

	if (!return_address)
		return UNWIND_NO_CODE;
	walk->frame.pc = return_address;
	return UNWIND_GOES_ON;
}

#define TRAMPOLINE_SYSCALL 11 /* offset of the instruction */
#define TRAMPOLINE_SYSCALL_END 13
#define TRAMPOLINE_BYTES 17

/*
 * A signal interrupted the thread in the trampoline. The trampoline pushes three registers, calls the kernel and pops
 * two of them (6.11 and later: uretprobe_trampoline_entry in arch/x86). Before that call only the kernel knows the
 * return address; after the call the stack has it.
 */
static __always_inline int step_from_trampoline(struct walk *walk)
{
	__u64 at = walk->frame.pc - walk->trampoline;
	__u64 pushed = at < 2 ? at : at < 4 ? 2 : at < 15 ? 3 : at < 16 ? 2 : 1;

	walk->frame.sp += 8 * pushed;
	walk->frame.is_exact = 0;
	if (at <= TRAMPOLINE_SYSCALL)
		return restore_return_address(walk);
	if (at < TRAMPOLINE_SYSCALL_END ||
	    window_word(walk, walk->frame.sp - 8, &walk->frame.pc))
		return UNWIND_UNREADABLE;
	return UNWIND_GOES_ON;
}

static __always_inline int step_by_rule(struct walk *walk)
{
	struct unwind_rule rule;

	__builtin_memcpy(&rule, &walk->rule, sizeof(rule));
	return unwind_step(rule, &walk->frame, (struct unwind_memory *)walk);
}

static __always_inline bool is_in_trampoline(const struct walk *walk)
{
	return walk->frame.is_exact && walk->trampoline &&
	       walk->frame.pc - walk->trampoline < TRAMPOLINE_BYTES;
}

/*
 * Whether a frame pointer may be used: for code made at run time, for a file without call frame information, and for
 * code that its file has no such information about (V8's builtins lie in the text of node). Not if a table is still
 * to come.
 */
static __always_inline bool may_guess(const struct walk *walk, int end)
{
	return settings.unwinder == UNWINDER_AUTO &&
	       (end == UNWIND_NO_RULE || (end == UNWIND_NO_TABLE && walk->may_guess));
}

/* Steps from the frame to its caller's frame. Returns UNWIND_GOES_ON, or why there is no caller. */
static __always_inline int unwind_one(struct walk *walk)
{
	int end;

	walk->guessed = walk->is_junk = 0;
	if (is_in_trampoline(walk))
		return step_from_trampoline(walk);
	end = unwind_rule_at(walk, unwind_rule_address(&walk->frame));
	if (end == UNWIND_GOES_ON)
		end = step_by_rule(walk);
	else if (end == UNWIND_NO_CODE)
		walk->is_junk = !walk->frame.is_exact;
	if (may_guess(walk, end))
		end = step_by_frame_pointer(walk, end);
	if (end == UNWIND_GOES_ON && !walk->frame.is_exact && walk->trampoline &&
	    walk->frame.pc == walk->trampoline)
		end = restore_return_address(walk);
	return end;
}

static __always_inline void set_bit(__u64 bits[2], __u32 nr)
{
	bits[nr / 64 & 1] |= 1ULL << nr % 64;
}

/* Notes what is special about frame nr. Few frames are. */
static __always_inline void mark_frame(struct traceback *traceback, __u32 nr, bool is_guessed, bool is_exact)
{
	if (nr >= settings.traceback_limit)
		return;
	if (is_guessed)
		set_bit(traceback->guessed, nr);
	if (is_exact)
		set_bit(traceback->exact, nr);
}

/*
 * Puts frame nr into the traceback and steps to its caller's frame. Returns UNWIND_GOES_ON, or why there is no caller. A
 * global function: the verifier checks it once, and not for each frame.
 */
__weak __noinline int walk_one(struct walk *walk, __u32 nr)
{
	int end, guessed;
	bool is_exact;

	if (!walk)
		return UNWIND_NO_TABLE;
	is_exact = walk->frame.is_exact;
	guessed = walk->guessed;
	if (nr < settings.traceback_limit && nr < TRACEBACK_LIMIT_MAX)
		walk->traceback.pc[nr] = walk->frame.pc;
	end = unwind_one(walk);
	if (end != UNWIND_GOES_ON) {
		walk->traceback.total_nframe = nr + 1;
		walk->traceback.end = end;
		if (walk->is_junk && nr) { /* not a frame */
			walk->traceback.total_nframe = nr;
			walk->traceback.end = guessed ?: end; /* the result of a wrong guess is worthless */
			return end;
		}
	}
	/* a signal handler returns to code that made no call */
	is_exact = is_exact || walk->frame.is_exact;
	if (guessed || is_exact)
		mark_frame(&walk->traceback, nr, guessed, is_exact);
	return end;
}

/* Follows the pointers directly. Reading them one by one with helpers would cost as much as three frames. */
static __always_inline __u64 trampoline_of(struct task_struct *task)
{
	struct xol_area *area = task->mm->uprobes_state.xol_area;

	return area ? area->vaddr : 0;
}

static __always_inline void tables_walk_begin(struct walk *walk)
{
	walk->trampoline = trampoline_of(bpf_get_current_task_btf());
	walk->guessed = 0;
	window_read(walk, walk->frame.sp);
}

#define STEPS_TOGETHER 16

/* Walks some frames. The verifier checks it once, too, and so a loop of a few steps in place of one of STEPS_MAX. */
__weak __noinline int walk_some(struct walk *walk, __u32 first)
{
	int end = UNWIND_GOES_ON;

	for (__u32 i = 0; i < STEPS_TOGETHER && end == UNWIND_GOES_ON; i++)
		end = walk_one(walk, first + i);
	return end;
}

/* Fills walk->traceback; walk->frame and walk->salt are set. */
static __always_inline void traceback_by_tables(struct walk *walk)
{
	tables_walk_begin(walk);
	walk->traceback.total_nframe = STEPS_MAX; /* unless the walk ends before */
	for (__u32 nr = 0; nr < STEPS_MAX && walk_some(walk, nr) == UNWIND_GOES_ON; nr += STEPS_TOGETHER)
		;
}

#endif
