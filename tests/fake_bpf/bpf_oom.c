// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/oom.bpf.c as it is. */
#include "oom.bpf.c"
