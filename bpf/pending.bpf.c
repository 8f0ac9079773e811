// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lists the blocks that pending reallocs hold, so that no map has them. The loader runs this program and reads its
 * output as a file. A call that changes meanwhile began or ended after the cut, and has handed its block over.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "maps.bpf.h"

static __always_inline bool read_pending_block(struct calls *calls, struct pending_block *ret)
{
	volatile struct call *call = &calls->call;
	__u64 call_cnt = *(volatile __u64 *)&calls->call_cnt;

	order_memory(&calls->call_cnt);
	if (!call->has_old)
		return false;
	ret->key = block_key_of(call->pointer, call->image, call->layer);
	order_memory(&calls->call_cnt);
	ret->block = calls->call.old;
	order_memory(&calls->call_cnt);
	return call->sp && *(volatile __u64 *)&calls->call_cnt == call_cnt;
}

SEC("iter/task")
int pending_blocks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct pending_block found;
	struct thread *thread;

	if (!task)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	for (int i = 0; thread && i < LAYER_NR; i++)
		if (read_pending_block(&thread->layer[i], &found))
			bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}
