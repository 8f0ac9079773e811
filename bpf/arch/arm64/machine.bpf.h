/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_MACHINE_BPF_H
#define ALLOCSNAP_MACHINE_BPF_H

/* The facts about arm64 that the programs need: bpf/arch/x86/machine.bpf.h describes each of them. */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* The offsets come from the kernel that runs. */
struct thread_struct___arm64 {
	struct {
		unsigned long tp_value;
	} uw;
} __attribute__((preserve_access_index));

struct task_struct___arm64 {
	struct thread_struct___arm64 thread;
} __attribute__((preserve_access_index));

#include <bpf/bpf_tracing.h>

/* The return address was never on the stack. */
#define RETURN_POPS 0

/* The saved x29 and x30 lie at the frame's bottom, mostly: a frame's end is above them, and where is not known. */
#define FRAME_ENDS_ABOVE_RECORD false

/*
 * The trampoline of return probes is one instruction, which leads to the kernel. With 52 bits of addresses it lies at their end,
 * and a return address has 48 of them here.
 */
#define TRAMPOLINE_ADDRESS(address) UNWIND_UNSIGNED(address)
#define TRAMPOLINE_SYSCALL 0
#define TRAMPOLINE_SYSCALL_END 4
#define TRAMPOLINE_BYTES 4
#define TRAMPOLINE_PUSHED(at) 0

#ifndef PT_REGS_PARM6
#define PT_REGS_PARM6(ctx) (((const struct user_pt_regs *)(ctx))->regs[5])
#endif

#define LINK 30
#define LINK_REGISTER(ctx) (((const struct user_pt_regs *)(ctx))->regs[LINK])
#define LINK_REGISTER_CORE(regs) BPF_CORE_READ((const struct user_pt_regs *)(regs), regs[LINK])

#define NR_MREMAP 216

struct pt_regs___syscall {
	int syscallno;
} __attribute__((preserve_access_index));

#define SYSCALL_NUMBER_CORE(regs) BPF_CORE_READ((const struct pt_regs___syscall *)(regs), syscallno)

#define FLAG_Z (1ULL << 30)
#define ZERO_FLAG(ctx) (((const struct user_pt_regs *)(ctx))->pstate & FLAG_Z)

/* TPIDR_EL0 as the task's last switch or clone() has left it. */
static __always_inline __u64 task_thread_pointer(const struct task_struct *task)
{
	return ((const struct task_struct___arm64 *)task)->thread.uw.tp_value;
}

/* BPF has no fence. An atomic instruction that fetches is one (the kernel's Documentation/atomic_t.txt). */
static __always_inline void order_memory(const void *any)
{
	__u64 fetched = __sync_fetch_and_add((__u64 *)any, 0);

	barrier_var(fetched);
}

#endif
