/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARGUMENT_TYPES_H
#define ALLOCSNAP_ARGUMENT_TYPES_H

/*
 * Where a value is when a thread passes a place in the code: in a register, in memory that registers lead to, or
 * known beforehand. src/elf/argument_source.h reads it from the text that compilers write into the notes of
 * probes; bpf/account/calls.bpf.h takes the value.
 */

#include "shared/fixed_width.h"

enum argument_kind {
	ARGUMENT_CONSTANT = 0,
	ARGUMENT_REGISTER,
	ARGUMENT_MEMORY,  /* at value + base + index * scale */
	ARGUMENT_ADDRESS, /* value + base + index * scale itself */
	ARGUMENT_KIND_NR,
};

#define ARGUMENT_NO_REGISTER 0xffff

/* A register is its place in struct pt_regs, in bytes. */
struct argument_source {
	bpf_u64 value; /* the constant, or a displacement */
	unsigned char kind, bytes; /* bytes: 1, 2, 4 or 8 */
	unsigned char is_signed, scale;
	unsigned short base, index;
};
_Static_assert(sizeof(struct argument_source) == 16, "no padding");

#endif
