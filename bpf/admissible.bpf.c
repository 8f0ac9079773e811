// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lists the processes that the rules admit and that are not recorded yet. They existed before the recording, or became
 * admissible without fork or exec (moved into a control group, renamed, another user). The loader runs this program
 * and reads its output as a file.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "filter/rules.bpf.h"

SEC("iter/task")
int admissible_processes(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct admissible_process found;

	if (!task || task->pid != task->tgid)
		return 0;
	found.tgid = task->tgid;
	found.user = user_of(task);
	if (bpf_map_lookup_elem(&process_slots, &found.tgid))
		return 0; /* recorded already */
	if (is_admissible(task, ADMISSION_BY_LOADER))
		bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

extern char own_cgroups_root[GROUP_PATH_BYTES];

/*
 * /proc shows control groups relative to the root of the reader's namespace. This stores where that root is; it stays ""
 * if the path is too long.
 */
static void note_own_cgroups(struct task_struct *task)
{
	__u32 place = ADMISSION_BY_LOADER;
	struct admission *admission = bpf_map_lookup_elem(&admissions, &place);

	if (!admission)
		return;
	admission->is_too_long = 0;
	read_cgroup(admission, BPF_CORE_READ(task, nsproxy, cgroup_ns, root_cset, dfl_cgrp, kn));
	if (!admission->is_too_long)
		bpf_probe_read_kernel_str(own_cgroups_root, sizeof(own_cgroups_root),
					  &admission->text[RULE_CGROUP][admission->start[RULE_CGROUP] & (TEXT_BYTES - 1)]);
}

/* The loader runs this once. It stores the loader's TGID and the roots of the paths that the loader sees in /proc. */
SEC("syscall")
int note_own(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	own_tgid = task->tgid;
	own_root = (__u64)BPF_CORE_READ(task, fs, root.dentry);
	own_root_mount = (__u64)BPF_CORE_READ(task, fs, root.mnt);
	note_own_cgroups(task);
	return 0;
}
