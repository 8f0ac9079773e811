/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_FRAME_H
#define ALLOCSNAP_UNWIND_FRAME_H

/* The current frame of an unwinder, and the results of its steps (unwind_step.h). */

#include "shared/unwind_types.h"

/*
 * Results of a step: X(name, meaning). The last three come from the search for the rule, not from unwind_step().
 */
#define UNWIND_ENDS(X) \
	X(GOES_ON, "the frame is the caller's now") \
	X(ROOT, "the stack begins here: this function has no caller") \
	X(NO_RULE, "code without call frame information") \
	X(UNSUPPORTED, "call frame information of a kind that is not followed") \
	X(UNREADABLE, "the stack could not be read") \
	X(BACKWARDS, "the caller's frame would not lie above this one") \
	X(NO_FP, "the frame pointer is needed, and was lost on the way") \
	X(NO_TABLE, "code of a file whose unwind table was not there, or made at run time") \
	X(NO_CODE, "the return address is not in code") \
	X(BUSY, "the mappings could not be looked at just then")

enum unwind_end {
#define X(name, meaning) UNWIND_##name,
	UNWIND_ENDS(X)
#undef X
	UNWIND_END_NR,
};

struct unwind_frame {
	bpf_u64 pc, sp, fp;
	bpf_u32 is_exact; /* pc is where a signal interrupted the thread, not a return address */
	bpf_u32 is_fp_lost;
	bpf_u64 left_sp; /* where the latest UNWIND_CFA_SWITCH left its stack; 0: the walk is there again */
};

#endif
