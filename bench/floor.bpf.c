// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that do nothing: only the kernel's own cost of a probe is left. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* At the entry and at the return: 0 asks for the return. */
SEC("uprobe")
int both_ends(struct pt_regs *ctx)
{
	return 0;
}

SEC("uprobe")
int only_entry(struct pt_regs *ctx)
{
	return 0;
}

SEC("uprobe")
int perf_entry(struct pt_regs *ctx)
{
	return 0;
}

SEC("uretprobe")
int perf_return(struct pt_regs *ctx)
{
	return 0;
}
