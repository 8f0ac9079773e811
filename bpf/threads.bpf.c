// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which threads of a process have an alternate signal stack; run by the loader, read as a file. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "shared/bpf_types.h"

SEC("iter/task")
int alternate_stacks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct alternate_stack found;

	if (!task || !task->sas_ss_size)
		return 0;
	found.tid = task->pid;
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}
