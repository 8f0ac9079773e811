/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INTERCEPTED_BPF_H
#define ALLOCSNAP_INTERCEPTED_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define WORK_BIT(name) (1UL << bpf_core_enum_value(enum syscall_work_bit, SYSCALL_WORK_BIT_##name))

/*
 * Whether another than the kernel gets the system calls of a thread: its own handler (syscall user dispatch; Wine), or a
 * tracer that emulates them (PTRACE_SYSEMU). The return of a hijacked call is a system call (Linux 6.11, uretprobe), and
 * the thread would not get back from it.
 */
static __always_inline bool is_intercepted(const struct task_struct *task)
{
	return bpf_core_field_exists(task->thread_info.syscall_work) &&
	       task->thread_info.syscall_work & (WORK_BIT(SYSCALL_USER_DISPATCH) | WORK_BIT(SYSCALL_EMU));
}

#endif
