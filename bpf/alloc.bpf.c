// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The probe programs: they read the arguments of a call by its shape and call the bookkeeping. A table of the loader
 * has the shape of each symbol of each allocator (src/elf/allocators.c).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "account/calls.bpf.h"
#include "account/cost.bpf.h"
#include "account/thread.bpf.h"
#include "python/creations.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct settings settings = {};
const volatile struct sample_tables sample_tables = {};
struct user_call user_calls[USER_CALLS_MAX] = {};
struct usdt_call usdt_calls[USDT_CALLS_MAX] = {};
struct python_call python_calls[PYTHON_CALLS_MAX] = {};
__u32 python_code_ids = 0;
__u64 python_codes_held = 0, python_codes_most = ~0ULL;
__u64 code_generation = 0;
__u64 shared_paused = 0;
__u64 shared_resumed_ns = 0;
__u64 shared_sample_rate = 0;
__u64 links_state = 0;
__u64 epoch = 1;
__u64 cut = 0;
__u64 any_dropped = 0;
__u64 blocks_most = ~0ULL, notes_most = ~0ULL;
__u64 tracebacks_most = ~0ULL >> 1;
__u64 tracebacks_held = 0;
__u64 tables_wanted = 0;
__u32 followed_sites[FOLLOWED_SITES] = {};

/*
 * From Linux 6.13 on a program of uprobes has a stack for each CPU (bpf_enable_priv_stack() in kernel/bpf/verifier.c), although
 * another thread may preempt it and run it, too. A program with a tail call has its thread's stack. Nothing reaches the
 * call, and the verifier removes it.
 */
const volatile __u64 has_tail_call = 0;

#define ON_STACK_OF_THREAD() \
	do { \
		if (has_tail_call) \
			bpf_tail_call(ctx, NULL, 0); \
	} while (0)

/* Arguments by position. The comments in enum call_shape have their order. */
#define ARG1 PT_REGS_PARM1(ctx)
#define ARG2 PT_REGS_PARM2(ctx)
#define ARG3 PT_REGS_PARM3(ctx)
#define ARG4 PT_REGS_PARM4(ctx)
#define ARG5 PT_REGS_PARM5(ctx)
#define ARG6 PT_REGS_PARM6(ctx)

/* Reads an argument of a user function; not inlined, so that the chains of calls need less stack. 0 if it cannot be read. */
static __noinline __u64 user_argument(struct pt_regs *ctx, const struct argument_source *source)
{
	__u64 value = 0;

	return argument_value(ctx, source, &value) ? 0 : value;
}

/* Not inlined, so that the programs stay short for processes without user allocators. */
static __noinline int enter_user_allocator(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	__u32 index = COOKIE_USER_CALL(cookie);
	const struct user_call *call;
	__u64 size, pointer;

	if (index >= USER_CALLS_MAX)
		return 0;
	call = &user_calls[index];
	size = product(user_argument(ctx, &call->count), user_argument(ctx, &call->size));
	pointer = user_argument(ctx, &call->pointer);
	return call_begin(thread, cookie, PT_REGS_SP(ctx), size, pointer);
}

static __noinline int free_of_user_allocator(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	__u32 index = COOKIE_USER_CALL(cookie);

	if (index >= USER_CALLS_MAX)
		return 0;
	return free_begin(thread, cookie, PT_REGS_SP(ctx), user_argument(ctx, &user_calls[index].pointer), 0);
}

#define KEEP_OLD 4 /* MREMAP_DONTUNMAP */

/* The old range if it leaves on success; 0 if it stays, or if the call must fail. */
static __always_inline __u64 mremap_old(__u64 address, __u64 bytes, __u64 flags)
{
	return range_is_sound(address, bytes) && !(flags & KEEP_OLD) ? address : 0;
}

/* The first argument is a heap, and the arguments of the shape follow it. Not inlined, because it is rare. */
static __noinline int enter_of_heap(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	__u64 sp = PT_REGS_SP(ctx);

	switch (COOKIE_SHAPE(cookie)) {
	case SHAPE_MALLOC:
		return call_begin(thread, cookie, sp, ARG2, 0);
	case SHAPE_CALLOC:
		return call_begin(thread, cookie, sp, product(ARG2, ARG3), 0);
	case SHAPE_REALLOC:
	case SHAPE_REALLOCF:
		return call_begin(thread, cookie, sp, ARG3, ARG2);
	case SHAPE_REALLOCARRAY:
		return call_begin(thread, cookie, sp, product(ARG3, ARG4), ARG2);
	}
	return 0;
}

/*
 * Records the entry of a call that gives out a block. One function handles all shapes, so that all probes of a file can be
 * attached at once.
 */
static __always_inline int record_call_entry(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	__u64 sp = PT_REGS_SP(ctx);

	if (settings.has_user_calls && COOKIE_SHAPE(cookie) >= SHAPE_USER_ALLOC)
		return enter_user_allocator(ctx, thread, cookie);
	if (cookie & COOKIE_OF_HEAP)
		return enter_of_heap(ctx, thread, cookie);
	switch (COOKIE_SHAPE(cookie)) {
	case SHAPE_MALLOC:
		return call_begin(thread, cookie, sp, ARG1, 0);
	case SHAPE_CALLOC:
		return call_begin(thread, cookie, sp, product(ARG1, ARG2), 0);
	case SHAPE_REALLOC:
	case SHAPE_REALLOCF:
	case SHAPE_XALLOCX:
		return call_begin(thread, cookie, sp, ARG2, ARG1);
	case SHAPE_REALLOCARRAY:
		return call_begin(thread, cookie, sp, product(ARG2, ARG3), ARG1);
	case SHAPE_MEMALIGN:
		return call_begin(thread, cookie, sp, ARG2, 0);
	case SHAPE_POSIX_MEMALIGN:
		return call_begin(thread, cookie, sp, ARG3, ARG1);
	}
	if (!settings.has_mappings)
		return 0;
	if (COOKIE_SHAPE(cookie) == SHAPE_MMAP)
		return call_begin(thread, cookie, sp, ARG2, 0);
	if (COOKIE_SHAPE(cookie) != SHAPE_MREMAP)
		return 0;
	if (thread)
		thread->old_bytes = ARG2;
	return call_begin(thread, cookie, sp, ARG3, mremap_old(ARG1, ARG2, ARG4));
}

static __always_inline int record_free_entry(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	__u64 sp = PT_REGS_SP(ctx);

	if (COOKIE_SHAPE(cookie) == SHAPE_FREE)
		return free_begin(thread, cookie, sp, ARG1, 0);
	if (settings.has_user_calls && COOKIE_SHAPE(cookie) == SHAPE_USER_FREE)
		return free_of_user_allocator(ctx, thread, cookie);
	if (!settings.has_mappings || !range_is_sound(ARG1, ARG2) || munmap_fails(ARG1, ARG2))
		return 0;
	return free_begin(thread, cookie, sp, ARG1, ARG2);
}

static __always_inline int record_call_return(struct pt_regs *ctx, struct thread *thread, __u64 cookie)
{
	if (thread)
		thread->caller = caller_at(ctx, CALLER_RETURN);
	return call_end(thread, cookie, PT_REGS_RC(ctx));
}

/* Returns whether the entry is recorded. *ret_thread is NULL if the thread is not known yet. */
static __always_inline bool begin_entry(struct pt_regs *ctx, __u64 cookie, struct thread **ret_thread)
{
	bool is_bystander;
	struct thread *thread = own_thread(true, &is_bystander);

	*ret_thread = thread;
	if (is_bystander) {
		count_bystander(trap_at_entry(cookie), 1);
		return false;
	}
	if (!link_counts(thread, cookie))
		return false;
	note_link(ctx, thread);
	cost_begin(thread);
	return true;
}

/* The same for a link of this process alone, which counts whatever links others have (account/thread.bpf.h). */
static __always_inline bool begin_own_entry(__u64 cookie, struct thread **ret_thread)
{
	bool is_bystander;

	*ret_thread = own_thread(true, &is_bystander);
	if (is_bystander)
		count_bystander(trap_at_entry(cookie), 1);
	else
		cost_begin(*ret_thread);
	return !is_bystander;
}

SEC("uprobe")
int BPF_KPROBE(enter_call)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct thread *thread;

	ON_STACK_OF_THREAD();
	if (!begin_entry(ctx, cookie, &thread))
		return 0;
	if (shape_is_free(COOKIE_SHAPE(cookie)))
		record_free_entry(ctx, thread, cookie);
	else
		record_call_entry(ctx, thread, cookie);
	cost_end(thread, trap_at_entry(cookie));
	return 0;
}

/* At USDT probes of a process: a program of its own, as the others need no more for them. */
SEC("uprobe")
int BPF_KPROBE(take_report)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct thread *thread;

	ON_STACK_OF_THREAD();
	if (!begin_entry(ctx, cookie, &thread))
		return 0;
	if (shape_is_sampler(COOKIE_SHAPE(cookie)))
		enter_sampler(ctx, thread, cookie);
	else
		enter_reported(ctx, thread, cookie);
	cost_end(thread, trap_at_entry(cookie));
	return 0;
}

/* On old kernels (6.1) the perf event of one process runs at the returns of all whose function has a return probe. */
SEC("uretprobe")
int BPF_KPROBE(leave_call)
{
	struct thread *thread = current_thread();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 of = COOKIE_USER_CALL(cookie);

	ON_STACK_OF_THREAD();
	if (of && thread && thread->slot + 1 != of)
		return 0;
	cost_begin(thread);
	record_call_return(ctx, thread, cookie);
	cost_end(thread, TRAP_RETURN);
	return 0;
}

/*
 * For a function that must not have a return probe: a plain probe at each place where its calls return. Such a place is
 * a `ret`, or a jump to a function that returns its first argument (src/elf/returns.h).
 */
SEC("uprobe")
int BPF_KPROBE(leave_by_ret)
{
	__u64 argument = ARG1, returned = PT_REGS_RC(ctx), cookie = bpf_get_attach_cookie(ctx);
	struct thread *thread = current_thread();

	ON_STACK_OF_THREAD();
	barrier_var(argument); /* otherwise clang computes an address in ctx, which BPF does not allow */
	barrier_var(returned);
	if (!link_counts(thread, cookie))
		return 0;
	note_link(ctx, thread);
	cost_begin(thread);
	if (cookie & RESULT_IS_ARGUMENT)
		returned = argument;
	call_end_by_ret(ctx, thread, returned);
	cost_end(thread, trap_at_entry(cookie));
	return 0;
}

/*
 * Handles both ends of a call as one session (kernel 6.13). This is safer, because the entry decides whether the return
 * address is hijacked. A function that only frees has no return to see. If ip is the address of the probe, this is the entry: a return address follows a call
 * instruction, and a probe never does. A return needs no look at links: it comes to the link whose entry counted.
 */
SEC("uprobe")
int BPF_KPROBE(session_call)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	bool is_bystander;
	struct thread *thread = own_thread(true, &is_bystander);
	int stays = 0;

	ON_STACK_OF_THREAD();
	if (is_bystander) {
		count_bystander(trap_at_entry(cookie), 1);
		return 1; /* do not hijack its return address */
	}
	if (shape_is_free(COOKIE_SHAPE(cookie))) {
		stays = 1;
		if (!link_counts(thread, cookie))
			return stays;
		note_link(ctx, thread);
		cost_begin(thread);
		record_free_entry(ctx, thread, cookie);
		cost_end(thread, trap_at_entry(cookie));
	} else if (PT_REGS_IP(ctx) == bpf_get_func_ip(ctx)) {
		if (!link_counts(thread, cookie))
			return 1;
		note_link(ctx, thread);
		cost_begin(thread);
		stays = record_call_entry(ctx, thread, cookie | COOKIE_IN_SESSION) != 0;
		cost_end(thread, trap_at_entry(cookie));
	} else {
		cost_begin(thread);
		record_call_return(ctx, thread, cookie);
		cost_end(thread, TRAP_RETURN);
	}
	return stays;
}

/*
 * At the places where CPython's allocators are called, or begin, and where its objects begin. A separate program, so that
 * the other programs stay small.
 */
SEC("uprobe")
int BPF_KPROBE(python_place)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct thread *thread;

	ON_STACK_OF_THREAD();
	if (!begin_own_entry(cookie, &thread))
		return 0;
	enter_python(ctx, thread, cookie);
	cost_end(thread, trap_at_entry(cookie));
	return 0;
}

/* The size that a function of the C library is called with, and *ret_old the block that it takes. */
static __always_inline __u64 heap_request(struct pt_regs *ctx, __u64 cookie, __u64 *ret_old)
{
	__u64 first = ARG1, second = ARG2;

	barrier_var(first); /* otherwise clang computes an address in ctx, which BPF does not allow */
	barrier_var(second);
	*ret_old = COOKIE_SHAPE(cookie) == SHAPE_REALLOC ? first : 0;
	if (COOKIE_SHAPE(cookie) == SHAPE_CALLOC)
		return product(first, second);
	return COOKIE_SHAPE(cookie) == SHAPE_REALLOC ? second : first;
}

/* Both ends of malloc, calloc and realloc of the C library, in a process whose Python view is recorded. */
SEC("uprobe")
int BPF_KPROBE(python_heap)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), size, old;
	bool is_bystander;
	struct thread *thread = own_thread(true, &is_bystander);
	int stays = 0;

	ON_STACK_OF_THREAD();
	if (is_bystander) {
		count_bystander(trap_at_entry(cookie), 1);
		return 1;
	}
	if (PT_REGS_IP(ctx) == bpf_get_func_ip(ctx)) {
		cost_begin(thread);
		size = heap_request(ctx, cookie, &old);
		stays = !thread || !thread->python.has_raw ||
			enter_python_heap(thread, cookie, PT_REGS_SP(ctx), size, old) != 0;
		cost_end(thread, trap_at_entry(cookie));
	} else {
		cost_begin(thread);
		python_note_place(ctx, thread, CALLER_RETURN);
		if (thread)
			python_call_end(thread, cookie, PT_REGS_RC(ctx));
		cost_end(thread, TRAP_RETURN);
	}
	return stays;
}
