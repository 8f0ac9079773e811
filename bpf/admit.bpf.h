/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ADMIT_BPF_H
#define ALLOCSNAP_ADMIT_BPF_H

/* What we look at. Probes are attached per process; its books open when all are in place. */

#include "maps.bpf.h"

/* NULL: not admitted. One that has ended keeps its books from whoever gets its pid next. */
static __always_inline struct process *process_of(__u32 tgid)
{
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	return process && !process->exit_ns ? process : NULL;
}

static __always_inline struct process *current_process(void)
{
	return process_of(bpf_get_current_pid_tgid() >> 32);
}

#endif
