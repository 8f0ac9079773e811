// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/admissible.bpf.c as it is. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "admissible.bpf.c"
