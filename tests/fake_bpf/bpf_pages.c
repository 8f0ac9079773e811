// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/pages.bpf.c as it is, but without `const`: see bpf_alloc.c. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* As the Makefile compiles it for BPF. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"

#define const
#include "pages.bpf.c"
