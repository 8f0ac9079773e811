/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FIXED_WIDTH_H
#define ALLOCSNAP_FIXED_WIDTH_H

/* Numbers of a fixed width, with the same name in the kernel and in user space. */

#ifdef __VMLINUX_H__
typedef __u32 bpf_u32;
typedef __u64 bpf_u64;
#else
#include <stdint.h>
typedef uint32_t bpf_u32;
typedef uint64_t bpf_u64;
#endif

#endif
