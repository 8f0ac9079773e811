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

/* Blocks of the old image are cleared away by the next drain; it frees what is not in the books. */
static __always_inline void begin_anew(struct process *process)
{
	process->image = __sync_fetch_and_add(&next_image, 1);
	__builtin_memset(process->counter, 0, sizeof(process->counter));
	__builtin_memset(process->loss, 0, sizeof(process->loss));
}

/* tracemalloc.clear_traces() and reset_peak(), in the kernel so that no event falls in between. */
SEC("syscall")
int clear_traces(struct process_request *request)
{
	struct process *process = process_of(request->tgid);

	if (!process)
		return -ESRCH;
	begin_anew(process);
	process->clear_cnt++;
	return 0;
}

SEC("syscall")
int reset_peak(struct process_request *request)
{
	struct process *process = process_of(request->tgid);

	if (!process)
		return -ESRCH;
	process->counter[COUNTER_peak_bytes] = process->counter[COUNTER_current_bytes];
	process->counter[COUNTER_peak_blocks] = process->counter[COUNTER_current_blocks];
	return 0;
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
	begin_anew(process);
	process->exec_cnt++;
	if (old_pid != task->pid) {
		process->thread_exec_cnt++;
		lose(process, LOSS_execs_unprobed);
	}
	thread = thread_of(task);
	if (thread) {
		thread->call.sp = 0;
		thread->freed.address = 0;
	}
	return 0;
}

/* Run by the loader: from now on calls that begin are seen to return at `ret` instructions. */
SEC("syscall")
int process_switch(struct process_request *args)
{
	struct process *process = process_of(args->tgid);

	if (!process)
		return -ESRCH;
	process->by_ret = 1;
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
