/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_STACK_RULES_H
#define ALLOCSNAP_UNWIND_STACK_RULES_H

/*
 * Go runs C code on another stack than Go code. Call frame information does not know of this, and .debug_frame says
 * something wrong where Go's runtime has changed the stack. This finds these places by their code, also in stripped
 * files: calls with an instruction that loads the stack pointer behind them, or before them.
 *
 *	asmcgocall	saves the goroutine and how far the stack pointer was below the end of its stack (it may be moved
 *			meanwhile), and computes the stack pointer from these: a rule
 *	the same on the system's stack already: a rule
 *	systemstack, mcall, …: from where they came, only Go's scheduler knows: no rule
 *	goexit		no function calls it, but each goroutine returns to it: the stack begins there
 */

#include <libelf.h>

#include "unwind/cfi_entries.h"

/* A rule that holds for one byte: the last one of a call, where return addresses are looked up. */
struct stack_rule {
	uint64_t address;
	struct unwind_rule rule;
};

struct stack_rules {
	struct stack_rule *rule; /* by address */
	size_t rule_nr, rule_alloc;
	bool is_partial; /* not all code was searched: .debug_frame may be wrong anywhere */
};

/*
 * By address, one at each. Of Go's code none in code of .eh_frame, and none if the file has no Go. On arm64 a signal
 * handler returns to code of the vDSO, or of musl, that does nothing but rt_sigreturn(): the kernel has put all registers
 * above the stack pointer. entries are sorted. 0 or -ENOMEM. The caller frees rule.
 */
int stack_rules_find(Elf *elf, const struct object_cfi *cfi, const struct entries *entries, struct stack_rules *ret);

#endif
