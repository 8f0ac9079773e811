/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TARGET_H
#define TARGET_H

/*
 * Programs that allocate, as the probes see them: processes, their threads, and calls that write
 * return addresses on real stacks and have them hijacked. Nothing here decides what should be
 * recorded; that is the tests' part.
 */
#include "fake.h"
#include "maps.bpf.h"
#include "shared/filter_types.h"
#include <criterion/criterion.h>

#define STACK_SLOTS 512
#define MAP_FAILED (~0ULL)
#define TRAMPOLINE 0x7fffffffe000ULL
#define PROBE_ADDRESS 0x7f0000001000ULL

struct target_process {
	pid_t pid;
	struct mm_struct mm;
	struct signal_struct signal;
	struct cred cred;
	struct xol_area xol;
	struct task_struct *main_thread;
	__u64 started_ns; /* of its main thread */
	__u64 exec_nr;
	bool is_hijacking; /* there are return probes */
	bool loss_expected[LOSS_NR]; /* expect_loss() looked at it; account_check() wants 0 of others */
};

#ifdef __TARGET_ARCH_x86
#define RET_POPS 8
#else
#define RET_POPS 0
#endif

struct target_thread {
	struct task_struct task; /* first: a task_struct of ours is a thread */
	struct target_process *process;
	__u64 stack[STACK_SLOTS];
	__u64 alternate_stack[STACK_SLOTS]; /* in no mapping unless the test adds one */
	__u64 frame_record[FAKE_FRAMES + 256][2]; /* saved frame pointer, return address; above sp */
};

/* Process 100, admitted; its main thread is the current one. Every test starts with them. */
extern struct target_process *process;
extern struct target_thread *main_thread;

void world_init(void);
void settings_set(__u32 traceback_limit, __u64 hash_seed);
/* From now on only such blocks are recorded; 0: no sampling, no limit. */
struct choice {
	__u64 sample_bytes, min_size, max_size;
	bool has_budget; /* with the rates of a budget: rate_is() */
};
extern struct choice chosen_blocks;
void choose_blocks(struct choice chosen);

/* A budget with these rates, instead of the rates of sample_rates_fill(). */
void choose_rates(const __u64 sample_bytes[SAMPLE_RATES]);

/* The loader changes the sampling rate of the process. */
void rate_is(struct target_process *target, __u32 rate);

/* The weight of a block, as the loader computes it. */
double block_weight(const struct block_key *key, const struct block *block);

/* Sets the number of places, a power of two; with 0 every block is in the map. FAKE_SESSION=1 starts with a few. */
void nursery_use(__u32 places);

/* Not admitted, without threads. */
struct target_process *process_start(pid_t pid);
struct target_process *process_by_pid(pid_t pid); /* NULL: none */
/* As the loader does it: an entry in `processes` with a new image. */
void process_admit(struct target_process *target);

/* Clears as the loader does, which waits in between. */
void clear_begin(struct target_process *target);
int clear_end(struct target_process *target);
int process_clear_traces(struct process_request *request); /* see process.bpf.c */

/*
 * With FAKE_RET=1 processes have probes at `ret` instructions instead of return probes; otherwise FAKE_SESSION=1 gives
 * them sessions. process_stop_hijacking() removes a process's return probes.
 */
bool returns_are_probed(void);
bool calls_are_sessions(void); /* one that returns 1 at the entry has no return */
void process_stop_hijacking(struct target_process *target);
struct target_thread *thread_start(struct target_process *target, pid_t tid);
void thread_run(struct target_thread *thread); /* makes it the current one */
void thread_exit(struct target_thread *thread, int code);
void thread_exec(struct target_thread *thread);

/* From the current thread: a new process and its main thread, which is not yet the current one. */
struct target_thread *thread_fork(pid_t pid);
struct target_thread *thread_vfork(pid_t pid); /* in the parent's memory, until its exec */
void thread_exec_from(struct target_thread *thread, pid_t old_pid); /* it had another TID before */
void thread_exec_unseen(struct target_thread *thread); /* the kernel passes over the program of its exec */

/* The address of a return address on the current thread's stack: a deeper call has a lower one. */
__u64 sp_at(unsigned int depth);
__u64 alternate_sp_at(unsigned int depth);

/*
 * One call: enter() is the CALL instruction, the entry probe and the hijacking of the return address; leave() is the
 * return. jump() is a JMP: the return address stays as it is. The shape is the probe site, unless `site_offset` gives
 * another one.
 */
#define ARGUMENTS(...) ((const __u64[6]){ __VA_ARGS__ })
#define enter(shape, sp, ...) call_enter(shape, sp, ARGUMENTS(__VA_ARGS__))
#define jump(shape, sp, ...) call_jump(shape, sp, ARGUMENTS(__VA_ARGS__))
void call_enter(enum call_shape shape, __u64 sp, const __u64 argument[6]);
void call_jump(enum call_shape shape, __u64 sp, const __u64 argument[6]);
void leave(enum call_shape shape, __u64 sp, __u64 returned);
void leave_by_jump(__u64 sp, __u64 argument); /* to a function that returns its argument */
void leave_with(enum call_shape shape, __u64 sp, __u64 returned, __u64 frame_pointer);
extern __u32 site_offset, domain, user_call;
extern struct user_call user_calls[USER_CALLS_MAX]; /* see bpf_alloc.c */
extern enum layer layer; /* the function's layer; the heap by default */
extern enum unwinder unwinder; /* for settings_set(); frame pointers by default */
extern void (*at_program)(bool begins); /* called before and after each program at a probe; NULL: not called */
extern __u32 next_slot; /* see process.bpf.c */
extern bool of_heap; /* the function: its first argument is a heap */
extern bool is_stepped; /* the function: its probe sits on an instruction that is single-stepped */
extern bool is_throwing; /* the function: its return address is not hijacked */
/* The links at each probe, the newest first, whose program runs first. By default they are shared. */
extern enum placed_links {
	LINKS_SHARED_ONLY = 0,
	LINKS_OWN_ONLY,
	LINKS_OWN_BEFORE_SHARED,
	LINKS_SHARED_BEFORE_OWN,
} placed_links;
extern bool restarts; /* the function jumps back to its begin */

/* enter() and leave() in one, at depth 1. */
void user_malloc(__u64 size, __u64 returned);
void user_calloc(__u64 n, __u64 size, __u64 returned);
void user_realloc(__u64 pointer, __u64 size, __u64 returned);
void user_reallocarray(__u64 pointer, __u64 n, __u64 size, __u64 returned);
void user_memalign(__u64 alignment, __u64 size, __u64 returned);
void user_free(__u64 pointer);

/* The process's own sampler passes its probes; the first frame of stack_is() is the place of the probe. */
void user_sample(__u64 address, __u64 size, __u64 weight);
void user_sample_free(__u64 address);
void user_sample_lost(__u64 address, __u64 size, __u64 weight); /* of a sampler that reports no frees */
/* A user allocator passes its USDT probes, likewise. */
void user_report(__u64 address, __u64 size, __u64 count);
void user_report_free(__u64 address);
extern struct usdt_call usdt_calls[USDT_CALLS_MAX]; /* row 0 has the places that all of these use */

/* In the layer and the domain of mappings. */
void user_mmap(__u64 size, __u64 returned);
void user_munmap(__u64 address, __u64 size);
void user_mremap(__u64 address, __u64 old_size, __u64 size, __u64 returned);
void mapping_enter(enum call_shape shape, __u64 sp, const __u64 argument[6]);
void mapping_leave(enum call_shape shape, __u64 sp, __u64 returned);

/* Sets the next tracebacks, most recent call first. */
#define stack_is(...) \
	stack_set((const __u64[]){ __VA_ARGS__ }, sizeof((const __u64[]){ __VA_ARGS__ }) / 8)
void stack_set(const __u64 *frame, __u32 nr);

void vma_add(const void *start, size_t bytes);

/* ---- The accounting ---- */

struct process *book_of(const struct target_process *target); /* NULL: not admitted */
struct block *block_of(const struct target_process *target, __u64 address); /* of the heap; NULL: none */
struct block *block_in(const struct target_process *target, enum layer layer, __u64 address);
struct block *block_at(__u64 address); /* of `process` */
struct block *block_mapped(const struct block_key *key); /* in the map; NULL: none */
struct block *block_young(const struct block_key *key); /* in the nursery, a copy; NULL: none */
__u32 block_cnt(void); /* of all processes, in the map and the nursery */

/* Goes through all blocks; false at the end. Start with a zeroed walk; do not change the blocks meanwhile. */
struct block_walk {
	__u32 place; /* of the nursery, walked first */
	struct fake_walk map;
	struct block_key key;
	const struct block *block;
};
bool block_walk(struct block_walk *walk);

/* Whether the counters of an image are the sums of its blocks and of its notes of dropped blocks. */
bool account_add_up(const struct process *book);

struct traceback *traceback_at(__u64 address); /* NULL: its block has none */
__u64 loss_of(struct target_process *target, enum loss loss); /* and expects it */

extern bool all_losses_are_expected; /* for tests in which losses are random */

/* As the loader deletes blocks of an image that has ended. */
void block_forget(const struct block_key *key);
void note_forget(const struct block_key *key);

/* Checks the invariants that hold for all admitted processes after every test. */
void account_check(void);

#define expect_same(got, wanted, ...) \
	do { \
		__u64 got_ = (got), wanted_ = (wanted); \
		cr_expect(got_ == wanted_, __VA_ARGS__ " is %llu, not %llu", got_, wanted_); \
	} while (0)

/* A probe at a `ret` cannot know whether it should have seen a call, so it counts no unmatched return. */
#define expect_unmatched_in(target, n) \
	expect_loss_in(target, returns_unmatched, returns_are_probed() ? 0 : (n))
#define expect_unmatched(n) expect_unmatched_in(process, n)

/* expect(frees, 3), expect_loss(blocks_dropped, 1): of `process`; expect_in for another one. */
#define expect_in(target, name, n) expect_same(book_of(target)->counter[COUNTER_##name], n, #name)
#define expect_loss_in(target, name, n) expect_same(loss_of(target, LOSS_##name), n, #name)
#define expect(name, n) expect_in(process, name, n)
#define expect_loss(name, n) expect_loss_in(process, name, n)

#define expect_live(address, bytes) \
	do { \
		const struct block *block_ = block_at(address); \
		cr_expect(block_ && block_->size == (bytes), #address " is not live with " #bytes); \
	} while (0)
#define expect_gone(address) cr_expect(!block_at(address), #address " is still live")

/*
 * A test that sets up the world first and checks the accounting last, in its body, because Criterion ignores a failed
 * assertion in .fini.
 */
#define ACCOUNT_TEST(suite, name, ...) \
	static void suite##_##name(void); \
	Test(suite, name, ##__VA_ARGS__) \
	{ \
		world_init(); \
		suite##_##name(); \
		account_check(); \
	} \
	static void suite##_##name(void)

#endif
