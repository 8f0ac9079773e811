// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/build/sample_weight.h"
#include "target.h"

/* The programs: what the loader sets for them, their processes and their threads. */

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
		.page_mask = 4095,
		.has_mappings = true,
		.has_user_calls = true,
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
	settings.free_filter_mask = PAIRING_ENTRIES - 1;
	nursery_use(0);
	fake_map_resize(&free_filter, PAIRING_ENTRIES);
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
	book_of(target)->is_open |= ACCOUNT_CLEARING;
}

int clear_end(struct target_process *target)
{
	int err = process_clear_traces(&(struct process_request){ .slot = book_of(target)->slot });

	book_of(target)->is_open &= ~(__u64)ACCOUNT_CLEARING;
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

/* Calls as the probes see them: at the entry, at the return. */

int enter_call(struct pt_regs *ctx);
int take_report(struct pt_regs *ctx);
int leave_call(struct pt_regs *ctx);
int session_call(struct pt_regs *ctx);
int leave_by_ret(struct pt_regs *ctx);

__u32 site_offset, domain, user_call;
enum layer layer = LAYER_HEAP;
bool of_heap;
bool is_stepped;
bool is_throwing;
bool restarts;
void (*at_program)(bool begins);

static struct target_thread *current_thread(void)
{
	return (struct target_thread *)fake.current;
}

__u64 sp_at(unsigned int depth)
{
	return (uintptr_t)&current_thread()->stack[STACK_SLOTS - 1 - depth];
}

__u64 alternate_sp_at(unsigned int depth)
{
	return (uintptr_t)&current_thread()->alternate_stack[STACK_SLOTS - 1 - depth];
}

static void cookie_set(enum call_shape shape)
{
	fake.attach_cookie = SITE_COOKIE(shape + site_offset, shape, layer, domain) |
			     USER_CALL_COOKIE(user_call) | (of_heap ? COOKIE_OF_HEAP : 0) |
			     (is_throwing ? COOKIE_BY_RET : 0) | (restarts ? COOKIE_RESTARTS : 0) |
			     (is_stepped ? COOKIE_STEPPED : 0);
}

/* Does what the kernel does after the entry probes when there is a return probe, too. */
static void return_hijack(__u64 sp)
{
	struct target_process *target = current_thread()->process;

	target->mm.uprobes_state.xol_area = &target->xol;
	*(__u64 *)sp = TRAMPOLINE;
}

bool returns_are_probed(void)
{
	return getenv("FAKE_RET");
}

bool calls_are_sessions(void)
{
	return getenv("FAKE_SESSION") && !returns_are_probed();
}

/* With FAKE_SESSION=1 the probes of calls are sessions, else a pair of probes. */
static bool is_session(enum call_shape shape)
{
	return getenv("FAKE_SESSION") && (!is_throwing || shape_is_free(shape));
}

enum placed_links placed_links;

/* The kind of the nth link that runs at a hit, the newest first: 0 is shared, 1 the process's own, -1 none. */
static int link_at(int n)
{
	static const int kinds[][2] = {
		[LINKS_SHARED_ONLY] = { 0, -1 },
		[LINKS_OWN_ONLY] = { 1, -1 },
		[LINKS_OWN_BEFORE_SHARED] = { 1, 0 },
		[LINKS_SHARED_BEFORE_OWN] = { 0, 1 },
	};

	return n < 2 ? kinds[placed_links][n] : -1;
}

static int run_link(int (*program)(struct pt_regs *), struct pt_regs *regs, int kind)
{
	__u64 cookie = fake.attach_cookie;
	int result;

	if (at_program)
		at_program(true);
	fake.attach_cookie |= kind ? COOKIE_OWN_LINK : 0;
	result = program(regs);
	fake.attach_cookie = cookie;
	if (at_program)
		at_program(false);
	return result;
}

/* Runs the program of each link. */
static void run(int (*program)(struct pt_regs *), struct pt_regs *regs)
{
	for (int i = 0; link_at(i) >= 0; i++)
		run_link(program, regs, link_at(i));
}

/* The links whose sessions wait for the return at a place on the stack: bit 0 is shared, bit 1 the process's own. */
#define WAITING 4096
static __u8 waiting[WAITING];

static __u8 *waiting_at(__u64 sp)
{
	return &waiting[sp / sizeof(__u64) % WAITING];
}

/* Returns whether no link's session wants the return. */
static int run_session_entries(struct pt_regs *regs)
{
	__u8 *wait = waiting_at(PT_REGS_SP(regs));

	*wait = 0;
	for (int i = 0; link_at(i) >= 0; i++)
		*wait |= !run_link(session_call, regs, link_at(i)) << link_at(i);
	return !*wait;
}

static void run_session_returns(struct pt_regs *regs, __u64 sp)
{
	bool is_mixed = link_at(1) >= 0;

	for (int i = 0; link_at(i) >= 0; i++)
		if (!is_mixed || *waiting_at(sp) & 1 << link_at(i))
			run_link(session_call, regs, link_at(i));
}

/* Whether the return address stays as it is. */
static int run_entry(struct pt_regs *regs, enum call_shape shape)
{
	fake.func_ip = PROBE_ADDRESS;
	PT_REGS_IP(regs) = PROBE_ADDRESS;
	if (is_session(shape))
		return run_session_entries(regs);
	run(enter_call, regs);
	return shape_is_free(shape) || is_throwing;
}

void call_jump(enum call_shape shape, __u64 sp, const __u64 argument[6])
{
	struct pt_regs regs = {};

	PT_REGS_SP(&regs) = sp;
	PT_REGS_PARM1(&regs) = argument[0];
	PT_REGS_PARM2(&regs) = argument[1];
	PT_REGS_PARM3(&regs) = argument[2];
	PT_REGS_PARM4(&regs) = argument[3];
	PT_REGS_PARM5(&regs) = argument[4];
	PT_REGS_PARM6(&regs) = argument[5];
	cookie_set(shape);
	if (!run_entry(&regs, shape) && current_thread()->process->is_hijacking)
		return_hijack(sp);
}

void call_enter(enum call_shape shape, __u64 sp, const __u64 argument[6])
{
	*(__u64 *)sp = fake.frame[0];
	call_jump(shape, sp, argument);
}

/* The callers' frame records, one above the other, as frame pointers link them. */
static __u64 frame_records_write(struct target_thread *thread)
{
	for (__u32 i = 1; i < fake.frame_nr; i++) {
		__u64 *record = thread->frame_record[i - 1];

		record[0] = i + 1 < fake.frame_nr ? (uintptr_t)thread->frame_record[i] : 0;
		record[1] = fake.frame[i];
	}
	return fake.frame_nr > 1 ? (uintptr_t)thread->frame_record[0] : 0;
}

void leave(enum call_shape shape, __u64 sp, __u64 returned)
{
	leave_with(shape, sp, returned, frame_records_write(current_thread()));
}

/* Before the `ret`, not behind it. */
static void leave_at_ret(__u64 sp, __u64 returned, __u64 frame_pointer)
{
	struct pt_regs regs = {};

	PT_REGS_IP(&regs) = PROBE_ADDRESS;
	PT_REGS_SP(&regs) = sp;
	PT_REGS_FP(&regs) = frame_pointer;
	PT_REGS_RC(&regs) = returned;
	fake.attach_cookie = RESULT_IS_RETURNED | COOKIE_STEPPED;
	run(leave_by_ret, &regs);
}

void leave_by_jump(__u64 sp, __u64 argument)
{
	struct pt_regs regs = {};

	PT_REGS_SP(&regs) = sp;
	PT_REGS_FP(&regs) = frame_records_write(current_thread());
	PT_REGS_RC(&regs) = 0xbad;
	PT_REGS_PARM1(&regs) = argument;
	fake.attach_cookie = RESULT_IS_ARGUMENT;
	leave_by_ret(&regs);
}

void leave_with(enum call_shape shape, __u64 sp, __u64 returned, __u64 frame_pointer)
{
	struct pt_regs regs = {};

	if (is_throwing || (book_of(current_thread()->process) &&
			    book_of(current_thread()->process)->by_ret))
		leave_at_ret(sp, returned, frame_pointer);
	if (is_throwing || !current_thread()->process->is_hijacking)
		return;

	if (is_session(shape) && *(__u64 *)sp == fake.frame[0]) /* as CALL wrote it: it was spared */
		return;
	PT_REGS_IP(&regs) = fake.frame[0];
	PT_REGS_SP(&regs) = sp + RET_POPS;
	PT_REGS_FP(&regs) = frame_pointer;
	PT_REGS_RC(&regs) = returned;
	cookie_set(shape);
	if (is_session(shape))
		run_session_returns(&regs, sp);
	else
		run(leave_call, &regs);
}

void user_malloc(__u64 size, __u64 returned)
{
	enter(SHAPE_MALLOC, sp_at(1), size);
	leave(SHAPE_MALLOC, sp_at(1), returned);
}

void user_calloc(__u64 n, __u64 size, __u64 returned)
{
	enter(SHAPE_CALLOC, sp_at(1), n, size);
	leave(SHAPE_CALLOC, sp_at(1), returned);
}

void user_realloc(__u64 pointer, __u64 size, __u64 returned)
{
	enter(SHAPE_REALLOC, sp_at(1), pointer, size);
	leave(SHAPE_REALLOC, sp_at(1), returned);
}

void user_reallocarray(__u64 pointer, __u64 n, __u64 size, __u64 returned)
{
	enter(SHAPE_REALLOCARRAY, sp_at(1), pointer, n, size);
	leave(SHAPE_REALLOCARRAY, sp_at(1), returned);
}

void user_memalign(__u64 alignment, __u64 size, __u64 returned)
{
	enter(SHAPE_MEMALIGN, sp_at(1), alignment, size);
	leave(SHAPE_MEMALIGN, sp_at(1), returned);
}

void user_free(__u64 pointer)
{
	enter(SHAPE_FREE, sp_at(1), pointer);
}

#define REGISTER(name) \
	{ .kind = ARGUMENT_REGISTER, .bytes = 8, .base = offsetof(struct pt_regs, name), .index = ARGUMENT_NO_REGISTER }

static void pass_usdt_probe(enum call_shape shape, __u64 address, __u64 size, __u64 weight)
{
	static const struct usdt_call places = { { REGISTER(di), REGISTER(si), REGISTER(dx) } };
	struct pt_regs regs = { .di = address, .si = size, .dx = weight };

	if (!usdt_calls[0].argument[0].bytes)
		usdt_calls[0] = places;
	PT_REGS_IP(&regs) = fake.frame[0];
	PT_REGS_SP(&regs) = sp_at(1);
	PT_REGS_FP(&regs) = frame_records_write(current_thread());
	cookie_set(shape);
	run(take_report, &regs);
}

void user_sample(__u64 address, __u64 size, __u64 weight)
{
	pass_usdt_probe(SHAPE_SAMPLE, address, size, weight);
}

void user_sample_lost(__u64 address, __u64 size, __u64 weight)
{
	pass_usdt_probe(SHAPE_SAMPLE_LOST, address, size, weight);
}

void user_sample_free(__u64 address)
{
	pass_usdt_probe(SHAPE_SAMPLE_FREE, address, 0xbad, 0xbad);
}

void user_report(__u64 address, __u64 size, __u64 count)
{
	pass_usdt_probe(SHAPE_REPORTED, address, size, count);
}

void user_report_free(__u64 address)
{
	pass_usdt_probe(SHAPE_REPORTED_FREE, address, 0xbad, 0xbad);
}

void mapping_enter(enum call_shape shape, __u64 sp, const __u64 argument[6])
{
	enum layer before = layer;
	__u32 domain_before = domain;

	layer = LAYER_MAPPING;
	domain = DOMAIN_MAPPING;
	call_enter(shape, sp, argument);
	layer = before;
	domain = domain_before;
}

void mapping_leave(enum call_shape shape, __u64 sp, __u64 returned)
{
	enum layer before = layer;

	layer = LAYER_MAPPING;
	leave(shape, sp, returned);
	layer = before;
}

void user_mmap(__u64 size, __u64 returned)
{
	mapping_enter(SHAPE_MMAP, sp_at(1), ARGUMENTS(0, size));
	mapping_leave(SHAPE_MMAP, sp_at(1), returned);
}

void user_munmap(__u64 address, __u64 size)
{
	mapping_enter(SHAPE_MUNMAP, sp_at(1), ARGUMENTS(address, size));
}

void user_mremap(__u64 address, __u64 old_size, __u64 size, __u64 returned)
{
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(address, old_size, size));
	mapping_leave(SHAPE_MREMAP, sp_at(1), returned);
}

void stack_set(const __u64 *frame, __u32 nr)
{
	if (nr > FAKE_FRAMES)
		abort();
	memcpy(fake.frame, frame, nr * sizeof(*frame));
	fake.frame_nr = nr;
}
