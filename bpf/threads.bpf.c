// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists the threads of a process that return probes could end. The loader runs it and reads its output as a file. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "account/intercepted.bpf.h"
#include "shared/bpf_types.h"

SEC("iter/task")
int risky_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct risky_thread found = {};

	if (!task)
		return 0;
	found.is_intercepted = is_intercepted(task);
	if (!found.is_intercepted && !task->sas_ss_size)
		return 0;
	found.tid = task->pid;
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}
