// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/process.bpf.c as it is. */
/* As the Makefile compiles it for BPF. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "process.bpf.c"
