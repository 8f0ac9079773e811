/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_NOP5_H
#define ALLOCSNAP_ELF_NOP5_H

/*
 * Nops of five bytes (x86-64). From 6.18 on the kernel turns a uprobe on such a nop into a call to
 * a page that it maps into the process (arch/x86/kernel/uprobes.c, can_optimize()). In 6.18 a
 * forked child inherits the call, but not the page: the child dies of SIGSEGV at its first hit.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOP5_BYTES 5

/*
 * Whether the instruction at code, with size readable bytes, may be such a nop. This is not only 0f
 * 1f 44 00 00: newer kernels accept every instruction of this length that does nothing
 * (insn_is_nop()).
 */
bool is_nop5(const uint8_t *code, size_t size);

/* The number of bytes of an instruction's ModRM, SIB and displacement, in 64-bit mode. */
size_t x86_modrm_len(uint8_t modrm, uint8_t sib);

#endif
