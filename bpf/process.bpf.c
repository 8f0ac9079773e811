// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The life of an admitted process: exec begins new books, the exit of the last thread ends them;
 * where its children are followed, a fork begins books of their own.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "account/cost.bpf.h"
#include "filter/everyone.bpf.h"
#include "account/record.bpf.h"

const volatile struct rules rules = {};
__u64 own_tgid = 0;
__u64 own_root = 0, own_root_mount = 0;
__u64 own_cgroup_root = 0;
__u64 next_image = 1;
__u32 slot_taken[PROCESSES_MAX] = {};
__u32 next_slot = 0;
__u32 user_slots[USERS_MAX] = {};
__u32 slots_taken_nr = 0;
__u64 admissions_dropped = 0;
__u64 ended_small = 0;
struct process ended_small_sum = {};
__u64 stale_blocks = 0, stale_images = 0;

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/*
 * tracemalloc.clear_traces(), of books that bear the mark: see images.bpf.h. Their process may have ended since
 * they were marked: nothing was counted meanwhile.
 */
SEC("syscall")
int clear_traces(struct process_request *request)
{
	__u32 slot = request->slot;
	struct process *process = bpf_map_lookup_elem(&processes, &slot);

	if (!process || !is_clearing(process))
		return -ESRCH;
	begin_anew(process);
	process->clear_cnt++;
	return 0;
}

/*
 * What is live may change meanwhile: a program that raised it since we looked may have found the old peak.
 * The exchange keeps the processor from looking again before the peak is there.
 */
static __always_inline void lower_peak(struct process *process, enum counter peak, enum counter current)
{
	volatile __u64 *now = &process->counter[current];
	__u64 before = *now;

	__sync_lock_test_and_set(&process->counter[peak], before);
	raise_peak(process, peak, *now);
}

SEC("syscall")
int reset_peak(struct process_request *request)
{
	struct process *process = process_in(request->slot);

	if (!process)
		return -ESRCH;
	lower_peak(process, COUNTER_peak_bytes, COUNTER_current_bytes);
	lower_peak(process, COUNTER_peak_blocks, COUNTER_current_blocks);
	return 0;
}

/*
 * Before the child runs. Its books are not looked at while they have no image. parent: NULL where that is
 * not recorded, though the child is.
 */
static __always_inline long admit_child(struct process *parent, struct task_struct *from,
					struct task_struct *child)
{
	bool shares_memory = child->mm == from->mm && parent;
	struct process *process = claim_process_slot(child);

	if (!process)
		return -ENOSPC;
	process->is_open = 1;
	process->by_ret = parent ? parent->by_ret : rules.by_ret;
	process->follows = 1;
	process->parent = parent ? from->tgid : 0;
	if (shares_memory)
		process->memory_of = parent->memory_of ?: (__u32)from->tgid;
	process->forked_ns = bpf_ktime_get_ns();
	bpf_get_current_comm(process->comm, sizeof(process->comm));
	if (parent) {
		process->args_bytes = parent->args_bytes;
		__builtin_memcpy(process->args, parent->args, sizeof(process->args));
	}
	process->is_forked = !shares_memory;
	begin_first_image(process, shares_memory ? parent : NULL);
	return 0;
}

/* A child is what its parent is, but for its PID. */
static __always_inline bool is_child_wanted(const struct process *parent, struct task_struct *child)
{
	if (rules.everyone && rules.has_pids)
		return is_admissible(child, ADMISSION_AT_FORK);
	return parent && parent->follows;
}

/* Runs in the parent, for each process and each thread that begins. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process *process = find_process_of_task(parent);

	if (child->tgid == parent->tgid || !is_child_wanted(process, child))
		return 0;
	if (!admit_child(process, parent, child))
		; /* it is recorded */
	else if (process)
		process_count_loss(process, LOSS_processes_dropped);
	else
		__sync_fetch_and_add(&admissions_dropped, 1);
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
 * In all its threads: those that have ended are in the sum, but for one that is just ending, and the
 * main one, which is a zombie as long as others run.
 */
static __always_inline __u64 cpu_time(struct task_struct *last)
{
	struct task_struct *main_thread = last->group_leader;
	__u64 ns = last->signal->sum_sched_runtime + last->se.sum_exec_runtime;

	return main_thread == last ? ns : ns + main_thread->se.sum_exec_runtime;
}

static __always_inline void forget_calls(struct task_struct *task)
{
	struct thread *thread = thread_of(task);

	if (thread)
		thread->image = 0;
	for (int i = 0; thread && i < LAYER_NR; i++) {
		thread->layer[i].call.sp = 0;
		thread->layer[i].freed.address = 0;
	}
}

/* Not inlined, as few do. Its files are mapped by now: events of them are younger than the process. */
static __noinline int admit_program(struct task_struct *task)
{
	struct process *process = claim_process_slot(task);

	if (!process) {
		__sync_fetch_and_add(&admissions_dropped, 1);
		return 0;
	}
	process->is_open = 1;
	process->by_ret = rules.by_ret;
	process->follows = 1;
	process->exec_cnt = 1;
	process->forked_ns = task->start_time;
	process->admitted_ns = bpf_ktime_get_ns();
	bpf_get_current_comm(process->comm, sizeof(process->comm));
	read_args(process, task);
	begin_first_image(process, NULL);
	forget_calls(task);
	ring(task->tgid);
	return 0;
}

/* It goes on as a program that nobody records: that is the end of it here, and it writes in no books. */
static __always_inline void leave_recording(struct process *process, struct task_struct *task)
{
	forget_calls(task);
	process->has_left = 1;
	process->cpu_ns = cpu_time(task);
	process->exit_ns = bpf_ktime_get_ns();
	end_books(process, task->tgid);
}

/* Whether that is all that there is to do at an exec. */
static __always_inline bool exec_changes_hands(struct process *process, struct task_struct *task)
{
	bool is_admitted = rules.everyone ? is_admissible(task, ADMISSION_AT_EXEC) : !!process;

	if (!process && is_admitted)
		admit_program(task);
	else if (process && !is_admitted)
		leave_recording(process, task);
	return !process || !is_admitted;
}

/*
 * The old memory is gone: its blocks keep the old image and are cleared away by the next drain.
 * Probes are tied to the task that was the main thread; where another thread calls exec it takes
 * that one's pid, and the probes are gone until the loader places them anew.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, pid_t old_pid)
{
	struct process *process = find_process_of_task(task);

	if (exec_changes_hands(process, task) || !process)
		return 0;
	begin_program(process, task);
	read_args(process, task);
	if (old_pid != task->pid && !process->follows) {
		process->thread_exec_cnt++;
		process_count_loss(process, LOSS_execs_unprobed);
	}
	forget_calls(task);
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
	own = find_process_of_task(bpf_get_current_task_btf());
	process = own ? find_memory_owner(own) : NULL;
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
	struct process *process = process_in(args->slot);

	if (!process)
		return -ESRCH;
	process->by_ret = 1;
	return 0;
}

/* Run by the loader before it takes probes away for a while: from now on it is a gap. */
SEC("syscall")
int process_pause(struct process_request *args)
{
	struct process *process = process_in(args->slot);

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
	struct process *process = process_in(args->slot);

	if (!process)
		return -ESRCH;
	process->resumed_ns = bpf_ktime_get_ns();
	return 0;
}

/* And when they are all there. */
SEC("syscall")
int process_resume(struct process_request *args)
{
	struct process *process = process_in(args->slot);

	if (!process)
		return -ESRCH;
	process->is_open = 1;
	return 0;
}

/* Runs for each thread; signal->live is 0 for the last one. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct process *process = find_process_of_task(task), *books;
	struct thread *thread;

	if (!process)
		return 0;
	books = find_memory_owner(process);
	thread = thread_of(task);
	for (int i = 0; books && thread && i < LAYER_NR; i++)
		if (thread->layer[i].call.sp)
			call_cut_off(books, &thread->layer[i].call);
	if (thread)
		cost_charge_process(process, &thread->cost, 0);
	if (task->pid == task->tgid)
		bpf_get_current_comm(process->comm, sizeof(process->comm));
	if (task->signal->live.counter || __sync_val_compare_and_swap(&process->is_ending, 0, 1))
		return 0;
	process->exit_code = task->signal->group_exit_code ?: task->exit_code;
	process->cpu_ns = cpu_time(task);
	process->is_oom_victim = task->signal->oom_mm != NULL;
	process->exit_ns = bpf_ktime_get_ns();
	if (rules.everyone)
		end_books(process, task->tgid);
	return 0;
}
