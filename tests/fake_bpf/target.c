// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The programs: what the loader sets for them, their processes and their threads. */
#include "target.h"
#include <bpf/bpf_helpers.h>
#include "collect/build/sample_weight.h"
#include <stdint.h>
#include <stdlib.h>

int process_switch(struct process_request *args);
int process_exec(unsigned long long *ctx), process_exit(unsigned long long *ctx);
int process_fork(unsigned long long *ctx);

extern volatile struct settings settings; /* see bpf_alloc.c */
extern volatile struct sample_tables sample_tables;
extern __u64 next_image;
extern __u32 slot_taken[PROCESSES_MAX], user_slots[USERS_MAX], slots_taken_nr;

struct target_process *process;
struct target_thread *main_thread;
enum unwinder unwinder = UNWINDER_FP;

struct choice chosen_blocks;

#define PROCESSES 16
static struct target_process *started[PROCESSES];

#define NURSERY_PLACES 4 /* few, so that blocks have to move */

void nursery_use(__u32 places)
{
	settings.nursery_mask = places ? places - 1 : 0;
	fake_map_resize(&nursery, places ?: 1);
}

void settings_set(__u32 traceback_limit, __u64 hash_seed)
{
	settings = (struct settings){
		.traceback_limit = traceback_limit,
		.hash_seed = hash_seed,
		.unwinder = unwinder,
		.max_map_count = 65530,
		.has_mappings = true,
		.has_custom = true,
	};
	nursery_use(calls_are_sessions() ? NURSERY_PLACES : 0);
}

#define PAIRING_ENTRIES 256 /* few, so that blocks share them */

void choose_blocks(struct choice chosen)
{
	struct sample_tables tables;

	chosen_blocks = chosen;
	sample_tables_fill(&tables);
	sample_tables = tables;
	sample_rates_fill((uint64_t *)settings.sample_bytes, chosen_blocks.sample_bytes, chosen_blocks.has_budget);
	settings.min_size = chosen_blocks.min_size;
	settings.max_size = chosen_blocks.max_size;
	settings.pairing_mask = PAIRING_ENTRIES - 1;
	nursery_use(0);
	fake_map_resize(&pairing, PAIRING_ENTRIES);
}

void choose_rates(const __u64 sample_bytes[SAMPLE_RATES])
{
	choose_blocks((struct choice){ .sample_bytes = sample_bytes[0], .has_budget = true });
	memcpy((void *)settings.sample_bytes, sample_bytes, sizeof(settings.sample_bytes));
}

void rate_is(struct target_process *target, __u32 rate)
{
	book_of(target)->sample_rate = rate;
}

double block_weight(const struct block_key *key, const struct block *block)
{
	return block->weight ? weight_of_told_block(block->size, block->weight) :
			       weight_of_block(block->size, block_key_layer(key), settings.sample_bytes[block->rate]);
}

void world_init(void)
{
	settings_set(TRACEBACK_LIMIT_DEFAULT, 0x5eed);
	fake_map_resize(&blocks, 1000);
	fake_map_resize(&tracebacks, 1000);
	fake_map_resize(&mapping_starts, 10000);
	stack_is(0x401000, 0x402000);
	process = process_start(100);
	main_thread = thread_start(process, 100);
	process_admit(process);
	thread_run(main_thread);
}

/* ---- Processes and threads ---- */

static void *zeroed(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		abort();
	return memory;
}

struct target_process *process_start(pid_t pid)
{
	struct target_process *target = zeroed(sizeof(*target));
	int i = 0;

	while (started[i])
		if (++i == PROCESSES)
			abort();
	started[i] = target;
	target->pid = pid;
	target->xol.vaddr = TRAMPOLINE;
	target->is_hijacking = !returns_are_probed();
	return target;
}

void clear_begin(struct target_process *target)
{
	book_of(target)->is_open |= BOOKS_CLEARING;
}

int clear_end(struct target_process *target)
{
	int err = process_clear_traces(&(struct process_request){ .slot = book_of(target)->slot });

	book_of(target)->is_open &= ~(__u64)BOOKS_CLEARING;
	return err;
}

struct target_process *process_by_pid(pid_t pid)
{
	for (int i = 0; i < PROCESSES; i++)
		if (started[i] && started[i]->pid == pid)
			return started[i];
	return NULL;
}

void process_admit(struct target_process *target)
{
	__u32 tgid = target->pid, *known = bpf_map_lookup_elem(&process_slots, &tgid);
	__u32 slot = known ? *known : next_slot++;
	__u64 image = __sync_fetch_and_add(&next_image, 1);
	struct process book = {
		.image = image,
		.memory = image,
		.is_open = 1,
		.tgid = tgid,
		.slot = slot,
		.start_boottime_ns = target->started_ns,
		.start_span_ns = 1,
	};

	if (!slot_taken[slot]) {
		user_slots[0]++;
		slots_taken_nr++;
	}
	slot_taken[slot] = 1;
	bpf_map_update_elem(&processes, &slot, &book, BPF_ANY);
	bpf_map_update_elem(&process_slots, &tgid, &slot, BPF_ANY);
	if (returns_are_probed())
		process_stop_hijacking(target);
}

void process_stop_hijacking(struct target_process *target)
{
	struct process_request args = { .slot = book_of(target)->slot };

	cr_assert_eq(process_switch(&args), 0);
	target->is_hijacking = false;
}

struct target_thread *thread_start(struct target_process *target, pid_t tid)
{
	struct target_thread *thread = zeroed(sizeof(*thread));

	thread->process = target;
	thread->task.pid = tid;
	thread->task.tgid = target->pid;
	if (tid == target->pid)
		target->main_thread = &thread->task;
	thread->task.group_leader = target->main_thread ?: &thread->task;
	thread->task.mm = &target->mm;
	thread->task.start_boottime = target->started_ns;
	thread->task.signal = &target->signal;
	thread->task.cred = &target->cred;
	thread->task.thread.fsbase = (uintptr_t)&thread->stack[STACK_SLOTS] - 1;
	if (tid == target->pid)
		target->mm.start_stack = thread->task.thread.fsbase;
	target->signal.live.counter++;
	vma_add(thread->stack, sizeof(thread->stack));
	return thread;
}

void thread_run(struct target_thread *thread)
{
	thread->task.self_exec_id = thread->process->exec_nr;
	fake.current = &thread->task;
}

static struct target_thread *fork_current(pid_t pid, bool shares_memory)
{
	struct target_thread *parent = (struct target_thread *)fake.current;
	struct target_process *child = process_start(pid);
	struct target_thread *thread = thread_start(child, pid);
	unsigned long long ctx[2] = { (uintptr_t)&parent->task, (uintptr_t)&thread->task };

	child->is_hijacking = parent->process->is_hijacking;
	child->cred = parent->process->cred;
	if (shares_memory)
		thread->task.mm = parent->task.mm;
	child->started_ns = thread->task.start_boottime = thread->task.start_time = fake.now_ns;
	child->exec_nr = parent->process->exec_nr;
	thread->task.self_exec_id = child->exec_nr;
	process_fork(ctx);
	return thread;
}

struct target_thread *thread_fork(pid_t pid)
{
	return fork_current(pid, false);
}

struct target_thread *thread_vfork(pid_t pid)
{
	return fork_current(pid, true);
}

/* The thread is gone from the kernel; its memory stays, for the tests to look at. */
void thread_exit(struct target_thread *thread, int code)
{
	unsigned long long ctx[1] = { (uintptr_t)&thread->task };

	thread_run(thread);
	thread->task.exit_code = code;
	thread->process->signal.live.counter--;
	process_exit(ctx);
	fake_task_free(&thread->task);
}

/* The new image has no place for return probes yet. */
void thread_exec(struct target_thread *thread)
{
	thread_exec_from(thread, thread->task.pid);
}

void thread_exec_from(struct target_thread *thread, pid_t old_pid)
{
	unsigned long long ctx[2] = { (uintptr_t)&thread->task, old_pid };

	thread_exec_unseen(thread);
	process_exec(ctx);
}

void thread_exec_unseen(struct target_thread *thread)
{
	thread->process->exec_nr++;
	thread_run(thread);
	thread->task.mm = &thread->process->mm;
	thread->process->mm.uprobes_state.xol_area = NULL;
}

void vma_add(const void *start, size_t bytes)
{
	unsigned long address = (uintptr_t)start;
	__u32 i = 0;

	while (i < fake.vma_nr && fake.vma[i].vm_start != address)
		i++;
	if (i == FAKE_VMAS)
		abort();
	fake.vma[i] = (struct vm_area_struct){ address, address + bytes };
	if (i == fake.vma_nr)
		fake.vma_nr++;
}
