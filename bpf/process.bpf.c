// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The life of an admitted process: exec begins new books, the exit of the last thread ends them. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "record.bpf.h"

/* The image id to give out next; the loader takes from it too. */
__u64 next_image = 1;

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/*
 * The old memory is gone: its blocks keep the old image and are cleared away by the next drain.
 * Probes are tied to the task that was the main thread; where another thread calls exec it takes
 * that one's pid, and the probes are gone until the loader places them anew.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, pid_t old_pid)
{
	struct process *process = process_of(task->tgid);
	struct thread *thread;

	if (!process)
		return 0;
	process->image = __sync_fetch_and_add(&next_image, 1);
	process->exec_cnt++;
	__builtin_memset(process->counter, 0, sizeof(process->counter));
	__builtin_memset(process->loss, 0, sizeof(process->loss));
	if (old_pid != task->pid) {
		process->thread_exec_cnt++;
		lose(process, LOSS_execs_unprobed);
	}
	thread = thread_of(task);
	if (thread)
		thread->call.sp = 0;
	return 0;
}

/* Runs for each thread; signal->live is 0 for the last one. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct process *process = process_of(task->tgid);
	struct thread *thread;

	if (!process)
		return 0;
	thread = thread_of(task);
	if (thread && thread->call.sp)
		call_cut_off(process, &thread->call);
	if (task->signal->live.counter)
		return 0;
	process->exit_code = task->signal->group_exit_code ?: task->exit_code;
	process->exit_ns = bpf_ktime_get_ns();
	return 0;
}
