/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef CODE_H
#define CODE_H

/*
 * Files of code with unwind tables, and stacks that lead through them. A file is FUNCTIONS functions
 * of FUNCTION_BYTES, each with one rule; it lies at CODE, and another one may come to lie there.
 */
#include "target.h"
#include "shared/unwind_types.h"

#define CODE 0x7f4000000000ULL
#define OTHER_CODE 0x7f5000000000ULL
#define CODE_BYTES 0x10000
#define FUNCTIONS 8
#define FUNCTION_BYTES 0x100

struct code_file {
	struct inode inode;
	struct file file;
};

/* A file with a table; functions without a given rule have UNWIND_CFA_NONE. */
void code_file_init(struct code_file *code, __u64 inode, const struct unwind_rule rule[FUNCTIONS]);

/* Maps it, or memory of no file (NULL), as code; what lay there before is gone. */
struct vm_area_struct *code_map(__u64 address, struct code_file *code);

/* An address in a function of the file mapped at CODE. */
#define IN_FUNCTION(nr) (CODE + (nr) * FUNCTION_BYTES + 0x10)

#define SP_PLUS(bytes) { .cfa_kind = UNWIND_CFA_SP, .cfa_off = (bytes) }
#define STACK_ROOT { .cfa_kind = UNWIND_CFA_ROOT }

/* The stack as the caller of malloc has it: its words from the stack pointer on, and rbp. */
extern __u32 stack_depth;
__u64 stack_pointer(void);
#define word_at(nr) (*(__u64 *)(stack_pointer() + 8 * (nr)))

/* The traceback of a malloc at IN_FUNCTION(0), which returns this address. */
struct traceback *traceback_of_malloc(__u64 address, __u64 frame_pointer);

/* By tables, before anything else. */
void tables_begin(enum unwinder how);

#define expect_frames(traceback, how, ...) \
	frames_check(traceback, how, (const __u64[]){ __VA_ARGS__ }, \
		     sizeof((const __u64[]){ __VA_ARGS__ }) / 8)
void frames_check(const struct traceback *traceback, int end, const __u64 *pc, __u32 nr);

#endif
