// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bpf/alloc.bpf.c without `const`: tests set what the loader sets before loading, and a compiler may drop stores to
 * const objects.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* As the Makefile compiles it for BPF. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define const
#include "alloc.bpf.c"
