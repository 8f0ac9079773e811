/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FAKE_BPF_TRACING_H
#define FAKE_BPF_TRACING_H

/*
 * libbpf's bpf_tracing.h for the native build. A BPF_KPROBE is called with a struct pt_regs, a
 * BPF_PROG with an array of its arguments, all pointers, as the kernel does.
 */
#include "vmlinux.h"

#if defined(__TARGET_ARCH_x86)
#define PT_REGS_PARM1(x) ((x)->di)
#define PT_REGS_PARM2(x) ((x)->si)
#define PT_REGS_PARM3(x) ((x)->dx)
#define PT_REGS_PARM4(x) ((x)->cx)
#define PT_REGS_PARM5(x) ((x)->r8)
#define PT_REGS_PARM6(x) ((x)->r9)
#define PT_REGS_RC(x) ((x)->ax)
#define PT_REGS_SP(x) ((x)->sp)
#define PT_REGS_IP(x) ((x)->ip)
#define PT_REGS_FP(x) ((x)->bp)
#else
#define PT_REGS_PARM1(x) ((x)->user_regs.regs[0])
#define PT_REGS_PARM2(x) ((x)->user_regs.regs[1])
#define PT_REGS_PARM3(x) ((x)->user_regs.regs[2])
#define PT_REGS_PARM4(x) ((x)->user_regs.regs[3])
#define PT_REGS_PARM5(x) ((x)->user_regs.regs[4])
#define PT_REGS_PARM6(x) ((x)->user_regs.regs[5])
#define PT_REGS_RC(x) ((x)->user_regs.regs[0])
#define PT_REGS_SP(x) ((x)->user_regs.sp)
#define PT_REGS_IP(x) ((x)->user_regs.pc)
#define PT_REGS_FP(x) ((x)->user_regs.regs[29])
#endif

#define PT_REGS_SP_CORE(x) PT_REGS_SP(x)
#define PT_REGS_IP_CORE(x) PT_REGS_IP(x)
#define PT_REGS_FP_CORE(x) PT_REGS_FP(x)
#define PT_REGS_PARM1_CORE_SYSCALL(x) PT_REGS_PARM1(x)
#define PT_REGS_PARM2_CORE_SYSCALL(x) PT_REGS_PARM2(x)
#define PT_REGS_PARM3_CORE_SYSCALL(x) PT_REGS_PARM3(x)

#define FAKE_PASTE2(a, b) a##b
#define FAKE_PASTE(a, b) FAKE_PASTE2(a, b)
#define FAKE_NARG2(_, _0, _1, _2, _3, _4, _5, N, ...) N
#define FAKE_NARG(...) FAKE_NARG2(_, ##__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)

#define FAKE_KPROBE_ARGS_1 ctx
#define FAKE_KPROBE_ARGS_2 FAKE_KPROBE_ARGS_1, PT_REGS_PARM1(ctx)
#define FAKE_KPROBE_ARGS_3 FAKE_KPROBE_ARGS_2, PT_REGS_PARM2(ctx)
#define FAKE_KPROBE_ARGS_4 FAKE_KPROBE_ARGS_3, PT_REGS_PARM3(ctx)
#define FAKE_KPROBE_ARGS_5 FAKE_KPROBE_ARGS_4, PT_REGS_PARM4(ctx)
#define FAKE_KPROBE_ARGS_6 FAKE_KPROBE_ARGS_5, PT_REGS_PARM5(ctx)

#define FAKE_PROG_ARGS_1 ctx
#define FAKE_PROG_ARGS_2 FAKE_PROG_ARGS_1, (void *)ctx[0]
#define FAKE_PROG_ARGS_3 FAKE_PROG_ARGS_2, (void *)ctx[1]
#define FAKE_PROG_ARGS_4 FAKE_PROG_ARGS_3, (void *)ctx[2]
#define FAKE_PROG_ARGS_5 FAKE_PROG_ARGS_4, (void *)ctx[3]
#define FAKE_PROG_ARGS_6 FAKE_PROG_ARGS_5, (void *)ctx[4]

/* name(ctx) takes the arguments out of ctx, and passes ctx and the arguments to the body. */
#define FAKE_PROGRAM(ctx_type, arguments, name, ...) \
	name(ctx_type *ctx); \
	static inline typeof(name(0)) body_of_##name(__VA_ARGS__); \
	typeof(name(0)) name(ctx_type *ctx) \
	{ \
		_Pragma("GCC diagnostic push") /* as in libbpf: arguments are pointers or integers */ \
		_Pragma("GCC diagnostic ignored \"-Wint-conversion\"") \
		return body_of_##name(FAKE_PASTE(arguments, FAKE_NARG(__VA_ARGS__))); \
		_Pragma("GCC diagnostic pop") \
	} \
	static inline typeof(name(0)) body_of_##name(__VA_ARGS__)

#define BPF_KPROBE(name, ...) \
	FAKE_PROGRAM(struct pt_regs, FAKE_KPROBE_ARGS_, name, \
		     struct pt_regs *ctx __attribute__((unused)), ##__VA_ARGS__)
#define BPF_PROG(name, ...) \
	FAKE_PROGRAM(unsigned long long, FAKE_PROG_ARGS_, name, \
		     unsigned long long *ctx __attribute__((unused)), ##__VA_ARGS__)

#endif
