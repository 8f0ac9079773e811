/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FAKE_VMLINUX_H
#define FAKE_VMLINUX_H

/*
 * The kernel's types for the native build: the real vmlinux.h, next to the C library's bool,
 * which it defines a second time, whether that is a macro (C17) or a keyword (C23).
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

#ifndef __TARGET_ARCH_x86
#ifdef __x86_64__
#define __TARGET_ARCH_x86
#elif defined(__aarch64__)
#define __TARGET_ARCH_arm64
#endif
#endif

#pragma push_macro("bool")
#pragma push_macro("true")
#pragma push_macro("false")
#undef bool
#undef true
#undef false
#define bool kernel_bool
#define true kernel_true
#define false kernel_false
#define BPF_NO_PRESERVE_ACCESS_INDEX
#include "../../vmlinux/vmlinux.h"
#pragma pop_macro("bool")
#pragma pop_macro("true")
#pragma pop_macro("false")

#endif
