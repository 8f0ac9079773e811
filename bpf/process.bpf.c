// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The life of an admitted process: exec begins new books, the exit of the last thread ends them;
 * where its children are followed, a fork begins books of their own.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "cost.bpf.h"
#include "record.bpf.h"

/* The image id to give out next; the loader takes from it too. */
__u64 next_image = 1;

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

#define COUNTERS_BEFORE_COST (sizeof(__u64) * COUNTER_entry_traps)
#define COUNTERS_AFTER_COST (sizeof(__u64) * (COUNTER_NR - COUNTER_program_ns - 1))

/*
 * Blocks of the old image are cleared away by the next drain; it frees what is not in the books. What the
 * recording has cost stays: so does the CPU time that it is a part of.
 */
static __always_inline void begin_anew(struct process *process)
{
	process->image = __sync_fetch_and_add(&next_image, 1);
	process->is_forked = 0;
	__builtin_memset(process->counter, 0, COUNTERS_BEFORE_COST);
	__builtin_memset(&process->counter[COUNTER_program_ns] + 1, 0, COUNTERS_AFTER_COST);
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

/* Which of `processes` are somebody's; the loader takes from them too, and gives back. */
__u32 slot_taken[PROCESSES_MAX];
__u32 next_slot;

static const struct process no_books;

#define SLOT_TRIES 256

/* Or PROCESSES_MAX: there is none. */
static __always_inline __u32 slot_take(void)
{
	__u32 first = __sync_fetch_and_add(&next_slot, 1);

	for (__u32 i = 0; i < SLOT_TRIES; i++) {
		__u32 slot = (first + i) & (PROCESSES_MAX - 1);

		if (!slot_taken[slot] && !__sync_val_compare_and_swap(&slot_taken[slot], 0, 1))
			return slot;
	}
	return PROCESSES_MAX;
}

/* New books, empty and without an image. NULL: no room, or those of an ended one are there yet. */
static __always_inline struct process *begin_books(__u32 tgid)
{
	__u32 slot = slot_take();
	struct process *process = bpf_map_lookup_elem(&processes, &slot);

	if (!process)
		return NULL;
	bpf_map_update_elem(&processes, &slot, &no_books, BPF_ANY);
	if (bpf_map_update_elem(&process_slots, &tgid, &slot, BPF_NOEXIST)) {
		slot_taken[slot & (PROCESSES_MAX - 1)] = 0;
		return NULL;
	}
	return process;
}

/* Before the child runs. Its books are not looked at while they have no image. */
static __always_inline long admit_child(struct process *parent, __u32 parent_tgid,
					struct task_struct *child, bool shares_memory)
{
	__u32 tgid = child->tgid;
	struct process *process = begin_books(tgid);

	if (!process)
		return -ENOSPC;
	process->is_open = 1;
	process->by_ret = parent->by_ret;
	process->follows = 1;
	process->parent = parent_tgid;
	if (shares_memory)
		process->memory_of = parent->memory_of ?: parent_tgid;
	process->forked_ns = bpf_ktime_get_ns();
	process->start_boottime_ns = child->start_boottime;
	bpf_get_current_comm(process->comm, sizeof(process->comm));
	process->args_bytes = parent->args_bytes;
	__builtin_memcpy(process->args, parent->args, sizeof(process->args));
	process->is_forked = !shares_memory;
	process->image = __sync_fetch_and_add(&next_image, 1);
	return 0;
}

/* Runs in the parent, for each process and each thread that begins. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process *process = process_of(parent->tgid);

	if (!process || !process->follows || child->tgid == parent->tgid)
		return 0;
	if (admit_child(process, parent->tgid, child, child->mm == parent->mm))
		lose(process, LOSS_processes_dropped);
	ring(child->tgid);
	return 0;
}

/* A program may be over before anybody can read /proc/PID/cmdline. */
static __always_inline void read_args(struct process *process, struct task_struct *task)
{
	__u64 start = task->mm->arg_start, bytes = task->mm->arg_end - start;

	if (bytes > ARGS_BYTES)
		bytes = ARGS_BYTES;
	process->args_bytes = bytes;
	if (bpf_probe_read_user(process->args, bytes, (void *)start))
		process->args_bytes = 0;
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
	process->memory_of = 0;
	bpf_get_current_comm(process->comm, sizeof(process->comm));
	read_args(process, task);
	if (old_pid != task->pid && !process->follows) {
		process->thread_exec_cnt++;
		lose(process, LOSS_execs_unprobed);
	}
	thread = thread_of(task);
	if (thread)
		thread->image = 0;
	for (int i = 0; thread && i < LAYER_NR; i++) {
		thread->layer[i].call.sp = 0;
		thread->layer[i].freed.address = 0;
	}
	ring(task->tgid);
	return 0;
}

/*
 * Code has been mapped: what is known of the addresses where it lies now is known no longer, and a
 * file may be new to the loader. A child that calls exec after vfork has left its parent's memory by
 * then, and its books are still its parent's: nothing is said of that one's code.
 */
SEC("fentry/perf_event_mmap")
int BPF_PROG(code_mapped, struct vm_area_struct *vma)
{
	struct process *own, *process;

	if (!(vma->vm_flags & VM_EXEC))
		return 0;
	own = process_of(bpf_get_current_pid_tgid() >> 32);
	process = own ? books_of(own) : NULL;
	if (!process)
		return 0;
	if (own->memory_of)
		forget_code(process, vma->vm_start, vma->vm_end - vma->vm_start);
	else
		note_code(process, vma);
	__sync_fetch_and_add(&process->code_cnt, 1);
	if (vma->vm_file)
		ring(bpf_get_current_pid_tgid() >> 32);
	return 0;
}

/*
 * In the place of code_mapped where functions of the kernel can't be traced: the kernel has found room
 * for a mapping. Code that is loaded gets all of its room at once, and then its parts are put there.
 */
SEC("tp_btf/vm_unmapped_area")
int BPF_PROG(room_found, unsigned long address, struct vm_unmapped_area_info *info)
{
	struct process *process = current_process();

	if (!process || (long)address < 0)
		return 0;
	forget_code(process, address, info->length);
	__sync_fetch_and_add(&process->code_cnt, 1);
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

/* Run by the loader before it takes probes away for a while: from now on it is a gap. */
SEC("syscall")
int process_pause(struct process_request *args)
{
	struct process *process = process_of(args->tgid);

	if (!process)
		return -ESRCH;
	process->is_open = 0;
	return 0;
}

/*
 * Run by the loader before it places probes again: what is pending by now has returned unseen, most
 * likely, and so have blocks been freed.
 */
SEC("syscall")
int process_return(struct process_request *args)
{
	struct process *process = process_of(args->tgid);

	if (!process)
		return -ESRCH;
	process->resumed_ns = bpf_ktime_get_ns();
	return 0;
}

/* And when they are all there. */
SEC("syscall")
int process_resume(struct process_request *args)
{
	struct process *process = process_of(args->tgid);

	if (!process)
		return -ESRCH;
	process->is_open = 1;
	return 0;
}

/*
 * In all its threads: those that have ended are in the sum, but for one that is just ending, and the
 * main one, which is a zombie as long as others run.
 */
static __always_inline __u64 cpu_time(struct task_struct *last)
{
	struct task_struct *main_thread = last->group_leader;
	__u64 ns = last->signal->sum_sched_runtime + last->se.sum_exec_runtime;

	return main_thread == last ? ns : ns + main_thread->se.sum_exec_runtime;
}

/* Runs for each thread; signal->live is 0 for the last one. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct process *process = process_of(task->tgid), *books;
	struct thread *thread;

	if (!process)
		return 0;
	books = books_of(process);
	thread = thread_of(task);
	for (int i = 0; books && thread && i < LAYER_NR; i++)
		if (thread->layer[i].call.sp)
			call_cut_off(books, &thread->layer[i].call);
	if (thread)
		cost_add(process, &thread->cost, 0);
	if (task->pid == task->tgid)
		bpf_get_current_comm(process->comm, sizeof(process->comm));
	if (task->signal->live.counter)
		return 0;
	process->exit_code = task->signal->group_exit_code ?: task->exit_code;
	process->cpu_ns = cpu_time(task);
	process->is_oom_victim = task->signal->oom_mm != NULL;
	process->exit_ns = bpf_ktime_get_ns();
	return 0;
}
