// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Victims of the OOM killer, and the memory cgroups of all processes. Loaded only if the user asks for it. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "account/admit.bpf.h"

/* The latest kills: kill n is at n - 1 modulo OOM_KILLS. The kernel chooses its victims under a lock. */
struct oom_kill oom_kills[OOM_KILLS];
__u64 oom_kill_cnt;

/*
 * The number of the memory cgroup that the process is charged to; the kernel never reuses it. 0: the kernel has no
 * memory cgroups. If the group of the process has no memory limits of its own, this is the nearest group above that
 * has them.
 */
static __always_inline __u64 memory_group_of(struct task_struct *task)
{
	struct cgroup_subsys_state *state = NULL;
	struct css_set *set;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return 0;
	set = BPF_CORE_READ(task, cgroups);
	bpf_core_read(&state, sizeof(state),
		      &set->subsys[bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)]);
	return BPF_CORE_READ(state, serial_nr);
}

/*
 * Before Linux 6.9, and in kernels derived from those, the tracepoint gets only the PID. Then the group of the process
 * that failed to get memory stands for the group of the victim.
 */
SEC("tp_btf/mark_victim")
int oom_victim(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = ctx[0];
	struct oom_kill *kill = &oom_kills[oom_kill_cnt & (OOM_KILLS - 1)];

	if (bpf_core_field_exists(struct trace_event_raw_mark_victim, uid)) {
		task = (struct task_struct *)ctx[0];
		tgid = BPF_CORE_READ(task, tgid);
	}
	kill->tgid = tgid;
	kill->group = memory_group_of(task);
	__sync_fetch_and_add(&oom_kill_cnt, 1);
	ring(tgid);
	return 0;
}

/* The loader runs this and reads its output as a file. */
SEC("iter/task")
int memory_groups(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct oom_kill found;

	if (!task || task->pid != task->tgid)
		return 0;
	found.tgid = task->tgid;
	found.group = memory_group_of(task);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}
