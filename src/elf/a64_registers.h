/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_A64_REGISTERS_H
#define ALLOCSNAP_ELF_A64_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#define A64_REGISTERS 31

/* The registers of arm64, as the kernel's struct user_pt_regs has them, and struct pt_regs begins. */
struct a64_registers {
	uint64_t x[A64_REGISTERS], sp, pc, pstate;
};

#endif
