// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists the threads of a process with an alternate signal stack. The loader runs it and reads its output as a file. */
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
