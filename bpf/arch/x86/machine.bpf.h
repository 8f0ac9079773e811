/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_MACHINE_BPF_H
#define ALLOCSNAP_MACHINE_BPF_H

/* The facts about x86-64 that the programs need. bpf/arch has this header once for each machine; -I chooses it. */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* The return pops the return address. */
#define RETURN_POPS 8

/* A frame's end is right above the words that `push %rbp; mov %rsp, %rbp` makes: the saved rbp and the return address. */
#define FRAME_ENDS_ABOVE_RECORD true

#ifndef PT_REGS_PARM6 /* libbpf of Debian 12 has only five */
#define PT_REGS_PARM6(ctx) ((ctx)->r9)
#endif

/*
 * The trampoline of return probes pushes three registers, calls the kernel and pops two of them (6.11 and later:
 * uretprobe_trampoline_entry in arch/x86).
 */
#define TRAMPOLINE_ADDRESS(address) (address) /* as a walk has it */
#define TRAMPOLINE_SYSCALL 11 /* offset of the instruction */
#define TRAMPOLINE_SYSCALL_END 13
#define TRAMPOLINE_BYTES 17
#define TRAMPOLINE_PUSHED(at) ((at) < 2 ? (at) : (at) < 4 ? 2 : (at) < 15 ? 3 : (at) < 16 ? 2 : 1)

/* The link register at a probe, and in a task's registers. x86-64 has none. */
#define LINK_REGISTER(ctx) 0ULL
#define LINK_REGISTER_CORE(regs) 0ULL

/* A task's system call, and its number for mremap(). */
#define NR_MREMAP 25
#define SYSCALL_NUMBER_CORE(regs) BPF_CORE_READ(regs, orig_ax)

#define FLAG_ZF (1 << 6)
#define ZERO_FLAG(ctx) ((ctx)->flags & FLAG_ZF)

static __always_inline __u64 task_thread_pointer(const struct task_struct *task)
{
	return task->thread.fsbase;
}

/*
 * Keeps the program's loads and stores before this place ahead of those that follow, as other CPUs see them; only a load may
 * come before an earlier store. x86-64 keeps this order by itself. any: any word that the program may write, which stays
 * as it is.
 */
static __always_inline void order_memory(const void *any)
{
	(void)any;
	barrier();
}

#endif
