// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bpf/alloc.bpf.c as it is, but without `const`, so that the tests can set what the loader sets
 * before loading; a compiler may forget stores to what is const.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* As the Makefile compiles it for BPF. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define const
#include "alloc.bpf.c"
