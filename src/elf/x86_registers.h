/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_X86_REGISTERS_H
#define ALLOCSNAP_ELF_X86_REGISTERS_H

#include <stdint.h>

/* The registers of x86-64, as <sys/user.h> has them there and struct pt_regs of the kernel begins: files for it are read on any machine. */
struct x86_registers {
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	uint64_t orig_rax, rip, cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs;
};

#endif
