// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/pending.bpf.c as it is. */
#include "pending.bpf.c"
