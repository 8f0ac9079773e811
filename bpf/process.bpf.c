// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The life of an admitted process: exec begins new account, and the exit of its last thread ends them. If its children
 * are followed, a fork begins account for the child.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "account/admit.bpf.h"
#include "account/cost.bpf.h"
#include "account/record.bpf.h"
#include "account/sample.bpf.h"
#include "account/thread.bpf.h"
#include "filter/rules.bpf.h"

/*
 * Account that begin and end in the kernel, for a system-wide recording. Most processes live for a short time and hold
 * little memory. Their account ends here, without work for the loader.
 */

/* The taken slots of the map `processes`. The loader takes slots and gives them back, too. */
extern __u32 slot_taken[PROCESSES_MAX];
extern __u32 next_slot;

/* Numbers of processes since the recording began. */
extern __u64 admissions_dropped; /* not recorded, because there was no room */
extern __u64 ended_small;	 /* ended before the loader saw them, with a lower peak than rules.min_bytes */
extern struct process ended_small_sum; /* sum of the account of ended_small: counters, losses and CPU time */

/* The number of slots that each user has, and that all users have. The loader updates them, too. */
extern __u32 user_slots[USERS_MAX];
extern __u32 slots_taken_nr;

static __always_inline bool user_has_share(__u32 user)
{
	__u32 taken = *(volatile __u32 *)&slots_taken_nr;

	return taken < PROCESSES_MAX &&
	       user_slots[user & (USERS_MAX - 1)] < SHARE_OF_FREE * (PROCESSES_MAX - taken);
}

static __always_inline void slot_count(__u32 user, __s32 n)
{
	__sync_fetch_and_add(&user_slots[user & (USERS_MAX - 1)], n);
	__sync_fetch_and_add(&slots_taken_nr, n);
}

#define SLOT_TRIES 256

/* Takes a slot for a user; PROCESSES_MAX: the user gets none. */
static __always_inline __u32 slot_take(__u32 user)
{
	__u32 first;

	if (!user_has_share(user))
		return PROCESSES_MAX;
	first = __sync_fetch_and_add(&next_slot, 1);
	for (__u32 i = 0; i < SLOT_TRIES; i++) {
		__u32 slot = (first + i) & (PROCESSES_MAX - 1);

		if (!slot_taken[slot] && !__sync_val_compare_and_swap(&slot_taken[slot], 0, 1)) {
			slot_count(user, 1);
			return slot;
		}
	}
	return PROCESSES_MAX;
}

static __always_inline void slot_give(__u32 slot, __u32 user)
{
	slot_count(user, -1);
	slot_taken[slot & (PROCESSES_MAX - 1)] = 0;
}

/* Whether the process may use an allocator that the loader does not know yet: nothing of it was recorded. */
static __always_inline bool may_be_unprobed(const struct process *process)
{
	return !(process->is_forked | process->memory_of | process->counter[COUNTER_allocations] |
		 process->counter[COUNTER_unknown_frees] | process->pages_bytes);
}

/* Blocks whose frees are not reported have no peak here. */
static __always_inline bool is_to_be_seen(const struct process *process)
{
	__u64 most = (process->counter[COUNTER_peak_bytes] ?: process->counter[COUNTER_allocated_bytes]) ?: process->pages_bytes;

	return (most && most >= rules.min_bytes) || may_be_unprobed(process);
}

/* Adds the account to ended_small_sum before they go. Most counters are 0; skipping those saves shared writes. */
static __always_inline void sum_small(const struct process *process)
{
	struct process *sum = &ended_small_sum;

	__sync_fetch_and_add(&ended_small, 1);
	__sync_fetch_and_add(&sum->cpu_ns, process->cpu_ns);
	for (int i = 0; i < COUNTER_NR; i++)
		if (process->counter[i])
			__sync_fetch_and_add(&sum->counter[i], process->counter[i]);
	for (int i = 0; i < LOSS_NR; i++)
		if (process->loss[i])
			__sync_fetch_and_add(&sum->loss[i], process->loss[i]);
}

/*
 * Ends the account of a process. Its PID may be reused at once. Its slot may be reused at once, too, unless the loader
 * has to see the account: then this wakes the loader.
 */
static __always_inline void end_account(struct process *process, __u32 tgid)
{
	__u32 slot = process->slot & (PROCESSES_MAX - 1);

	leave_blocks(process);
	bpf_map_delete_elem(&process_slots, &tgid);
	if (is_to_be_seen(process) ||
	    __sync_val_compare_and_swap(&process->owner, ACCOUNT_OF_KERNEL, ACCOUNT_OF_NOBODY)) {
		ring(tgid);
		return;
	}
	sum_small(process);
	process->image = 0;
	order_memory(&process->image);
	slot_give(slot, process->user);
}

/*
 * Ends the account of an older process with the same PID. That process has ended before this one began, and the program
 * at its end was missed. How it ended is unknown.
 */
static __always_inline void end_unseen(struct task_struct *task)
{
	struct process *gone = process_at(task->tgid);

	if (!gone || process_is_of_task(gone, task) || __sync_val_compare_and_swap(&gone->is_ending, 0, 1))
		return;
	__sync_fetch_and_add(&gone->loss[LOSS_ends_missed], 1);
	gone->exit_ns = task->start_time;
	end_account(gone, task->tgid);
}

static const struct process no_account;

/*
 * Begins empty account without an image for the process whose main thread is the task, or will be. Returns NULL if there
 * is no room, or if the account of an ended process with this PID are still there.
 */
static __always_inline struct process *claim_process_slot(struct task_struct *task)
{
	__u32 user = user_of(task), slot = slot_take(user), tgid = task->tgid;
	struct process *process = bpf_map_lookup_elem(&processes, &slot);

	if (!process)
		return NULL;
	bpf_map_update_elem(&processes, &slot, &no_account, BPF_ANY);
	process->tgid = tgid;
	process->slot = slot;
	process->user = user;
	process->start_boottime_ns = task->start_boottime;
	process->start_span_ns = 1;
	process->exec_id = exec_id_of(task);
	end_unseen(task);
	if (bpf_map_update_elem(&process_slots, &tgid, &slot, BPF_NOEXIST)) {
		slot_give(slot, user);
		return NULL;
	}
	return process;
}

/* The copy of a process's memory at fork: what it records of it, its child does, too. */
static __always_inline void keep_python(struct process *process, const struct process *parent)
{
	if (parent && parent->python_memory == parent->memory)
		process->python_memory = process->memory;
}

/* Gives new account their image. parent: NULL after an exec. The image is written last. */
static __always_inline void begin_first_image(struct process *process, const struct process *parent, bool shares_memory)
{
	__u64 image = __sync_fetch_and_add(&next_image, 1);

	process->memory = shares_memory ? parent->memory : image;
	keep_python(process, parent);
	process->image = image;
}

const volatile struct rules rules = {};
/* Without --follow-forks: tracepoints, not functions of the kernel, report when children leave the parent's memory. */
const volatile bool sharers_by_tracepoints = false;
/* Linux 6.16 moved the tracepoint of an exit to before the task loses its memory and its struct uprobe_task. */
const volatile bool exits_untold = false;
__u64 own_tgid = 0;
__u64 own_root = 0, own_root_mount = 0;
char own_cgroups_root[GROUP_PATH_BYTES] = {};
__u64 next_image = 1;
__u32 slot_taken[PROCESSES_MAX] = {};
__u32 next_slot = 0;
__u32 user_slots[USERS_MAX] = {};
__u32 slots_taken_nr = 0;
__u64 admissions_dropped = 0;
__u64 ended_small = 0;
struct process ended_small_sum = {};
__u64 stale_blocks = 0;
__u32 sharers_untold = 0; /* 1: a child begins in recorded memory and is not seen when it leaves; 2: a note says so */

static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/*
 * tracemalloc.clear_traces() for account with the mark: see thread.bpf.h. Their process may have ended since the loader
 * marked them; nothing was counted meanwhile.
 */
SEC("syscall")
int process_clear_traces(struct process_request *request)
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
 * Sets the peak to the current value. The value may change meanwhile: a program that raised it after the first read may
 * have seen the old peak. So the value is read again. The exchange keeps the CPU from reading it before the new peak is
 * stored.
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
 * Runs before the child does. The loader ignores account without an image. parent is NULL if the child is recorded but
 * its parent is not.
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
	begin_first_image(process, parent, shares_memory);
	return 0;
}

/* A child has all properties of its parent except the PID, so only PID rules are tested again. */
static __always_inline bool is_child_wanted(const struct process *parent, struct task_struct *child)
{
	if (rules.system_wide && rules.has_pids)
		return is_admissible(child, ADMISSION_AT_FORK);
	return parent && parent->follows;
}

#define CLONE_VM 0x100
#define CLONE_THREAD 0x10000

/*
 * Runs in the parent, where children are not followed. A child in its memory hits its probes, but the kernel runs their
 * programs for the parent's own threads only.
 */
SEC("raw_tp/task_newtask")
int BPF_PROG(memory_shared, struct task_struct *child, __u64 flags)
{
	struct process *process;

	if ((flags & (CLONE_VM | CLONE_THREAD)) != CLONE_VM)
		return 0;
	process = own_process();
	if (process && !exits_untold)
		__sync_fetch_and_add(&process->sharers, 1);
	else if (process && !sharers_untold)
		sharers_untold = 1;
	return 0;
}

/*
 * The task leaves the memory that it runs in, by exec or exit. If that is its recorded parent's, it is a sharer no longer.
 * It has a struct uprobe_task if it has hit a probe. BPF_CORE_READ: the verifier takes half a millisecond for each load of
 * a pointer from a task.
 */
__weak __noinline int leave_shared_memory(void)
{
	struct task_struct *task = bpf_get_current_task_btf(), *parent = task->real_parent;
	struct process *process;

	if (task->pid != task->tgid || BPF_CORE_READ(task, mm) != BPF_CORE_READ(parent, mm) || task->tgid == parent->tgid)
		return 0;
	process = find_process_of_task(parent);
	if (!process)
		return 0;
	if (BPF_CORE_READ(task, utask))
		process_count_loss(process, LOSS_children_unrecorded);
	if (process->sharers) /* it may have begun before the recording */
		__sync_fetch_and_sub(&process->sharers, 1);
	return 0;
}

/* The kernel takes no program at a function that may return anything but 0. */
SEC("fentry/exec_mm_release")
int sharer_execs(void *ctx)
{
	leave_shared_memory();
	return 0;
}

SEC("fentry/exit_mm_release")
int sharer_exits(void *ctx)
{
	leave_shared_memory();
	return 0;
}

/* Replaces these two, with process_exit, if functions of the kernel cannot be traced. The memory is still the parent's. */
SEC("raw_tp/sched_prepare_exec")
int sharer_prepares_exec(void *ctx)
{
	return leave_shared_memory();
}

/* Runs in the parent, for each new process and each new thread. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct process *process = find_process_of_task(parent);

	if (child->tgid == parent->tgid || !is_child_wanted(process, child))
		return 0;
	if (!admit_child(process, parent, child))
		; /* the child is recorded */
	else if (process)
		process_count_loss(process, LOSS_processes_dropped);
	else
		__sync_fetch_and_add(&admissions_dropped, 1);
	ring(child->tgid);
	return 0;
}

/* Keeps the arguments, because a program may end before the loader can read /proc/PID/cmdline. */
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
 * The CPU time of all threads. The kernel's sum has the ended threads, except the one that is just ending and the main
 * thread, which stays a zombie as long as other threads run.
 */
static __always_inline __u64 cpu_time(struct task_struct *last)
{
	__u64 ns = BPF_CORE_READ(last, signal, sum_sched_runtime) + last->se.sum_exec_runtime;

	return last->pid == last->tgid ? ns : ns + BPF_CORE_READ(last, group_leader, se.sum_exec_runtime);
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

/*
 * Admits a process at exec. Not inlined, because it is rare. The files of the program are mapped by now: their events
 * are later than the start of the process (forked_ns) and earlier than admitted_ns.
 */
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
	begin_first_image(process, NULL, false);
	forget_calls(task);
	ring(task->tgid);
	return 0;
}

/* The process continues as a program that is not recorded. Its account ends here, and it writes to none. */
static __always_inline void leave_recording(struct process *process, struct task_struct *task)
{
	forget_calls(task);
	process->has_left = 1;
	process->cpu_ns = cpu_time(task);
	process->exit_ns = bpf_ktime_get_ns();
	end_account(process, task->tgid);
}

/* Admits a new program or drops a recorded one at exec. Returns whether nothing is left to do there. */
static __always_inline bool exec_changes_hands(struct process *process, struct task_struct *task)
{
	bool is_admitted = rules.system_wide ? is_admissible(task, ADMISSION_AT_EXEC) : !!process;

	if (!process && is_admitted)
		admit_program(task);
	else if (process && !is_admitted)
		leave_recording(process, task);
	return !process || !is_admitted;
}

/*
 * The old memory is gone: its blocks keep the old image, and the next drain removes them. Probes are tied to the task
 * of the main thread. If another thread calls exec, it takes the PID of the main thread, and the probes are gone until
 * the loader places them again.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, pid_t old_pid)
{
	struct process *process = find_process_of_task(task);

	if (exec_changes_hands(process, task) || !process)
		return 0;
	begin_program(process, task);
	read_args(process, task);
	if (old_pid != task->pid && (!process->follows || LINKS_PHASE(links_state) == LINKS_OWN)) {
		process->thread_exec_cnt++;
		process_count_loss(process, LOSS_execs_unprobed);
	}
	forget_calls(task);
	ring(task->tgid);
	return 0;
}

/*
 * Code has been mapped. Old knowledge about its addresses is invalid, and the file may be new to the loader. A child
 * that calls exec after vfork has left the memory of its parent by now, but still uses the parent's account. So its
 * mapping is not noted there as code of the parent.
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
 * Replaces code_mapped if functions of the kernel cannot be traced. The kernel has found room for a mapping. Code that
 * is loaded gets its whole room first; then its parts are mapped there.
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

/* The loader runs this. From now on probes on `ret` instructions see the returns of new calls. */
SEC("syscall")
int process_switch(struct process_request *args)
{
	struct process *process = process_in(args->slot);

	if (!process)
		return -ESRCH;
	process->by_ret = 1;
	return 0;
}

/* The loader runs this before it removes probes for a while. A gap begins. */
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
 * The loader runs this before it places probes again. Calls that are pending now have most likely returned unseen, and
 * blocks have been freed unseen.
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

/* The loader runs this when all probes are placed again. */
SEC("syscall")
int process_resume(struct process_request *args)
{
	struct process *process = process_in(args->slot);

	if (!process)
		return -ESRCH;
	process->is_open = 1;
	return 0;
}

/* A global function, so that the verifier walks it once, and not for each layer. */
__weak __noinline int cut_off_call(struct thread *thread, __u32 layer)
{
	struct process *account = current_process();

	if (account && thread && layer < LAYER_NR)
		call_cut_off(account, &thread->layer[layer].call);
	return 0;
}

/* Runs at the exit of each thread. For the last thread signal->live is 0. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct process *process = find_process_of_task(task);
	struct thread *thread;

	if (!process)
		return sharers_by_tracepoints ? leave_shared_memory() : 0;
	thread = thread_of(task);
	for (__u32 i = 0; thread && i < layer_nr(); i++)
		if (thread->layer[i].call.sp)
			cut_off_call(thread, i);
	if (thread)
		cost_charge_process(process, &thread->cost, 0);
	if (task->pid == task->tgid)
		bpf_get_current_comm(process->comm, sizeof(process->comm));
	if (BPF_CORE_READ(task, signal, live.counter) || __sync_val_compare_and_swap(&process->is_ending, 0, 1))
		return 0;
	process->exit_code = BPF_CORE_READ(task, signal, group_exit_code) ?: task->exit_code;
	process->cpu_ns = cpu_time(task);
	process->is_oom_victim = BPF_CORE_READ(task, signal, oom_mm) != NULL;
	process->exit_ns = bpf_ktime_get_ns();
	if (rules.system_wide)
		end_account(process, task->tgid);
	return 0;
}
