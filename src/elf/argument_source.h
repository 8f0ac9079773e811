/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_ARGUMENT_SOURCE_H
#define ALLOCSNAP_ELF_ARGUMENT_SOURCE_H

/*
 * The text in which compilers say where the arguments of a probe are (notes of type stapsdt):
 *
 *	8@%rdi		a register of 8 bytes; 4@%eax, 1@%ah
 *	-4@$5		a constant; a minus before the width: the number is signed
 *	8@16(%rsp)	memory: displacement, base, index, scale, as assemblers write it
 *	4@-8+4(%rax,%rbx,4)
 *
 * or on arm64
 *
 *	8@x0		a register; 4@w0, 8@sp
 *	-4@5		a constant
 *	8@[sp, 16]	memory: base, and a displacement or an index, which may be shifted
 *	8@[x0, x1, lsl 3]
 *
 * A missing width means 8 bytes. Numbers may be decimal or hexadecimal, and sums of such.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "shared/argument_types.h"

/*
 * Reads arguments, which spaces separate. 0; -EINVAL: no such text; -ENOTSUP: an argument that cannot be read at a
 * probe (a variable's name, a segment, a floating-point register), or more than nr_max. With a line in *why.
 */
int argument_sources_parse(const char *text, uint16_t elf_machine, struct argument_source *ret, size_t nr_max, size_t *ret_nr,
			   struct reason *why);

/* The place of the register of x86-64 with a name of so many bytes ("rax", "al"; "ah" lies one byte further). */
bool argument_register_named(const char *name, size_t bytes, unsigned short *ret);

/* Argument number `position`, from 1, of a call, at its begin, on this machine; narrow: it has four bytes. */
struct argument_source argument_at(uint32_t position, bool is_narrow);

/* A value that is known beforehand. */
struct argument_source argument_constant(uint64_t value);

/* Checks what another process sent. */
bool argument_source_is_sound(const struct argument_source *source);

#endif
