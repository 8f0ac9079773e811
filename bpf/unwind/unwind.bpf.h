/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_BPF_H
#define ALLOCSNAP_UNWIND_BPF_H

/*
 * Takes the traceback at a return probe. There the registers are the caller's, so the first frame is the call itself
 * and is never missing. At a sampler's probe the first frame is the place of the probe (is_exact). At the entry of a function the kernel's walk skips the direct caller unless the function
 * starts with `push %rbp`, and malloc does not.
 *
 * Unwind tables give the callers. The walk by frame pointers is our own, too. bpf_get_stack()
 * follows whatever rbp points at. In code without frame pointers rbp is an ordinary register, mostly not even an
 * address on the stack, and its junk would make thousands of distinct tracebacks.
 */

#include "maps.bpf.h"
#include "unwind/stack.bpf.h"

/*
 * Reads the stack 2 KiB at a time. This costs little more than reading one word, and each frame needs two words.
 */

#define WINDOW_BYTES (WINDOW_WORDS * 8)
#define PAGE_BYTES 4096

/* Near the end of the stack's mapping only the rest of the page can be read. */
__weak __noinline int window_read(struct walk *walk, __u64 sp)
{
	__u64 in_page = PAGE_BYTES - (sp & (PAGE_BYTES - 1));

	if (!walk)
		return 0;
	walk->window_start = sp;
	walk->window_words = WINDOW_WORDS;
	if (!bpf_probe_read_user(walk->window, WINDOW_BYTES, (void *)sp))
		return 0;
	walk->window_words = in_page / 8;
	barrier_var(in_page); /* otherwise clang compares the value it comes from, and the verifier loses the bound */
	if (in_page >= WINDOW_BYTES || bpf_probe_read_user(walk->window, in_page, (void *)sp))
		walk->window_words = 0;
	return 0;
}

static __always_inline bool window_has(struct walk *walk, __u64 address, __u64 *ret_word)
{
	__u64 offset = address - walk->window_start;
	__u64 at = offset / 8;

	if (at >= walk->window_words || offset & 7)
		return false;
	*ret_word = walk->window[at & (WINDOW_WORDS - 1)];
	return true;
}

/* Registers are saved below the return address, in the same frame. */
#define SAVED_BYTES 64

/* Reads a word of the stack into walk->word. An address above the window moves the window up. Returns 0 or an error. */
__weak __noinline int window_fetch(struct walk *walk, __u64 address)
{
	if (!walk)
		return -1;
	if (address - walk->window_start < 1ULL << 32)
		window_read(walk, address - SAVED_BYTES);
	if (window_has(walk, address, &walk->word))
		return 0;
	return bpf_probe_read_user(&walk->word, sizeof(walk->word), (void *)address);
}

static __always_inline int window_word(struct walk *walk, __u64 address, __u64 *ret_word)
{
	if (window_has(walk, address, ret_word))
		return 0;
	if (window_fetch(walk, address))
		return -1;
	*ret_word = walk->word;
	return 0;
}

#include "unwind/known_walks.bpf.h"
#include "unwind/unwind_rule.bpf.h"

#define FRAME_BYTES_MAX (1ULL << 20) /* largest stack frame of one function */

/* Stacks grow down: the caller's frame must lie above, aligned, and at most FRAME_BYTES_MAX away. */
static __always_inline bool frame_pointer_is_sane(__u64 frame_pointer, __u64 above)
{
	return !(frame_pointer & 7) && frame_pointer - above < FRAME_BYTES_MAX;
}

/*
 * The stack walk by unwind tables. One step is a global function, called in a loop: the verifier checks it once,
 * instead of once for each step.
 */

struct unwind_memory {
	struct walk walk;
};

static __always_inline int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address,
					       bpf_u64 *ret_word)
{
	struct walk *walk = &memory->walk;
	int err = window_word(walk, address, ret_word);

	if (err)
		walk->depends_on_more = 1;
	else if (ret_word == &walk->frame.fp)
		walk->fp_from = address;
	else
		walk_has_read(walk, address, *ret_word);
	return err;
}

#define UNWIND_RARE_CFA(rule, frame, memory, ret_cfa) walk_rare_cfa(&(memory)->walk, ret_cfa)
static int walk_rare_cfa(struct walk *walk, bpf_u64 *ret_cfa);
#define UNWIND_RESTORE_LINK(rule, frame, memory, cfa) walk_restore_link(&(memory)->walk, cfa)
int walk_restore_link(struct walk *walk, bpf_u64 cfa);
#include "shared/unwind_step.h"

/* A global function, so that the verifier checks it once, and not for each way that leads on. */
__weak __noinline int walk_find_cfa(struct walk *walk)
{
	struct unwind_rule rule;
	int end;

	if (!walk)
		return UNWIND_NO_RULE;
	__builtin_memcpy(&rule, &walk->rule, sizeof(rule));
	end = unwind_rare_cfa(rule, &walk->frame, (struct unwind_memory *)walk, &walk->word);
	if (rule.cfa_kind >= UNWIND_CFA_SWITCH)
		window_read(walk, walk->word - SAVED_BYTES);
	return end;
}

/* Global for the same reason. */
__weak __noinline int walk_restore_link(struct walk *walk, bpf_u64 cfa)
{
	struct unwind_rule rule;

	if (!walk)
		return UNWIND_NO_RULE;
	__builtin_memcpy(&rule, &walk->rule, sizeof(rule));
	return unwind_restore_link(rule, &walk->frame, (struct unwind_memory *)walk, cfa);
}

static __always_inline int walk_rare_cfa(struct walk *walk, bpf_u64 *ret_cfa)
{
	int end = walk_find_cfa(walk);

	*ret_cfa = walk->word;
	return end;
}

/*
 * Guesses the caller from the frame that `push %rbp; mov %rsp, %rbp` makes. This is for code without any information.
 * If the frame pointer cannot be right, the result `end` of the tables stays.
 */
static __always_inline int step_by_frame_pointer(struct walk *walk, int end)
{
	struct unwind_memory *memory = (struct unwind_memory *)walk;
	struct unwind_frame *frame = &walk->frame;
	__u64 at = frame->fp;

	if (frame->is_fp_lost)
		return UNWIND_NO_FP;
	walk_uses_fp(walk, true);
	if (!frame_pointer_is_sane(at, frame->sp))
		return end;
	if (unwind_memory__read(memory, at, &frame->fp) || unwind_memory__read(memory, at + 8, &frame->pc))
		return UNWIND_UNREADABLE;
	frame->sp = at + 16;
	frame->is_sp_lost = !FRAME_ENDS_ABOVE_RECORD;
	frame->pc = UNWIND_UNSIGNED(frame->pc);
	frame->is_exact = 0;
	walk->guessed = end;
	return UNWIND_GOES_ON;
}

/* A return probe, of allocsnap or of another tool, has replaced a return address by its trampoline. */
static __noinline int restore_return_address(struct walk *walk)
{
	__u64 return_address = hijacked_return(walk->frame.sp - RETURN_POPS);

	walk->depends_on_more = 1;
	if (!return_address)
		return UNWIND_NO_CODE;
	walk->frame.pc = return_address;
	return UNWIND_GOES_ON;
}

/*
 * A signal interrupted the thread in the trampoline. Before the kernel is there only the kernel knows the return address;
 * after that the stack has it.
 */
static __always_inline int step_from_trampoline(struct walk *walk)
{
	__u64 at = TRAMPOLINE_ADDRESS(walk->frame.pc) - walk->trampoline;

	walk->depends_on_more = 1;
	walk->frame.sp += 8 * TRAMPOLINE_PUSHED(at);
	walk->frame.is_exact = 0;
	if (at <= TRAMPOLINE_SYSCALL)
		return restore_return_address(walk);
	if (at < TRAMPOLINE_SYSCALL_END ||
	    window_word(walk, walk->frame.sp - RETURN_POPS, &walk->frame.pc))
		return UNWIND_UNREADABLE;
	return UNWIND_GOES_ON;
}

static __always_inline int step_by_rule(struct walk *walk)
{
	struct unwind_rule rule;

	__builtin_memcpy(&rule, &walk->rule, sizeof(rule));
	walk_uses_fp(walk, unwind_uses_fp(rule));
	return unwind_step(rule, &walk->frame, (struct unwind_memory *)walk);
}

static __always_inline bool is_in_trampoline(const struct walk *walk)
{
	return walk->frame.is_exact && walk->trampoline &&
	       TRAMPOLINE_ADDRESS(walk->frame.pc) - walk->trampoline < TRAMPOLINE_BYTES;
}

/*
 * Whether a frame pointer may be used: for code made at run time, for a file without call frame information, and for
 * code that its file has no such information about (V8's builtins lie in the text of node). Not if a table is still
 * to come.
 */
static __always_inline bool may_guess(const struct walk *walk, int end)
{
	return settings.unwinder == UNWINDER_AUTO &&
	       (end == UNWIND_NO_RULE || (end == UNWIND_NO_TABLE && walk->may_guess));
}

/* Steps from the frame to its caller's frame. Returns UNWIND_GOES_ON, or why there is no caller. */
static __always_inline int unwind_one(struct walk *walk)
{
	int end;

	walk->guessed = walk->is_junk = 0;
	if (is_in_trampoline(walk))
		return step_from_trampoline(walk);
	end = unwind_rule_at(walk, unwind_rule_address(&walk->frame));
	if (end == UNWIND_GOES_ON)
		end = step_by_rule(walk);
	else if (end == UNWIND_NO_CODE)
		walk->is_junk = !walk->frame.is_exact;
	if (may_guess(walk, end))
		end = step_by_frame_pointer(walk, end);
	if (end == UNWIND_GOES_ON && !walk->frame.is_exact && walk->trampoline &&
	    walk->frame.pc == walk->trampoline)
		end = restore_return_address(walk);
	return end;
}

static __always_inline void set_bit(__u64 bits[2], __u32 nr)
{
	bits[nr / 64 & 1] |= 1ULL << nr % 64;
}

/* Notes what is special about frame nr. Few frames are. */
static __always_inline void mark_frame(struct traceback *traceback, __u32 nr, bool is_guessed, bool is_exact)
{
	if (nr >= settings.traceback_limit)
		return;
	if (is_guessed)
		set_bit(traceback->guessed, nr);
	if (is_exact)
		set_bit(traceback->exact, nr);
}

/*
 * Puts frame nr into the traceback and steps to its caller's frame. Returns UNWIND_GOES_ON, or why there is no caller. A
 * global function: the verifier checks it once, and not for each frame.
 */
__weak __noinline int walk_one(struct walk *walk, __u32 nr)
{
	int end;

	if (!walk)
		return UNWIND_NO_TABLE;
	walk->was_exact = walk->frame.is_exact;
	walk->was_guessed = walk->guessed;
	if (nr < settings.traceback_limit && nr < TRACEBACK_LIMIT_MAX)
		walk->traceback.pc[nr] = walk->frame.pc;
	end = unwind_one(walk);
	if (end != UNWIND_GOES_ON) {
		walk->traceback.total_nframe = nr + 1;
		walk->traceback.end = end;
		if (walk->is_junk && nr) { /* not a frame */
			walk->traceback.total_nframe = nr;
			walk->traceback.end = walk->was_guessed ? (int)walk->was_guessed : end; /* the result of a wrong guess is worthless */
			return end;
		}
	}
	/* a signal handler returns to code that made no call */
	walk->was_exact |= walk->frame.is_exact;
	if (walk->was_guessed || walk->was_exact)
		mark_frame(&walk->traceback, nr, walk->was_guessed, walk->was_exact);
	return end;
}

/* Follows the pointers directly. Reading them one by one with helpers would cost as much as three frames. */
static __always_inline __u64 trampoline_of(struct task_struct *task)
{
	struct xol_area *area = task->mm->uprobes_state.xol_area;

	return area ? TRAMPOLINE_ADDRESS(area->vaddr) : 0;
}

static __always_inline void tables_walk_begin(struct walk *walk)
{
	walk->trampoline = trampoline_of(bpf_get_current_task_btf());
	walk->guessed = 0;
	window_read(walk, walk->frame.sp);
}

#define STEPS_MAX 512 /* total_nframe counts at most this many frames */
#define STEPS_TOGETHER 16

/* Walks some frames. The verifier checks it once, too, and so a loop of a few steps in place of one of STEPS_MAX. */
__weak __noinline int walk_some(struct walk *walk, __u32 first)
{
	int end = UNWIND_GOES_ON;

	for (__u32 i = 0; i < STEPS_TOGETHER && end == UNWIND_GOES_ON; i++)
		end = walk_one(walk, first + i);
	return end;
}

/* Fills walk->traceback; walk->frame and walk->salt are set. */
static __always_inline void traceback_by_tables(struct walk *walk)
{
	tables_walk_begin(walk);
	walk->traceback.total_nframe = STEPS_MAX; /* unless the walk ends before */
	for (__u32 nr = 0; nr < STEPS_MAX && walk_some(walk, nr) == UNWIND_GOES_ON; nr += STEPS_TOGETHER)
		;
}

extern const volatile struct settings settings;

/*
 * The loader raises this when any code has been mapped, or when it publishes a table. Cached rules of addresses are
 * invalid then.
 */
extern __u64 code_generation;

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): each input bit reaches every output bit. */
static __always_inline __u64 mix(__u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/*
 * The key of a stack: 64 bits, never 0, with a random seed for each recording. 100,000 distinct stacks collide with
 * probability 3e-10, and a target cannot prepare a collision, so the key alone identifies the stack. The frames go by
 * turns to two hashes, which the CPU computes at the same time. A global function, so that the verifier checks it only
 * once.
 */
__weak __noinline __u64 traceback_hash(struct traceback *traceback, __u64 image)
{
	__u64 even = mix(settings.hash_seed ^ image), odd = ~settings.hash_seed, hash;
	__u32 limit = settings.traceback_limit, nframe;

	if (!traceback)
		return 0;
	nframe = traceback->nframe;
	even = mix(even ^ traceback->total_nframe ^ (__u64)traceback->end << 32);
	even += traceback->guessed[0] ^ traceback->guessed[1];
	odd = mix(odd ^ traceback->exact[0] ^ traceback->exact[1]);
	if (nframe < limit && nframe < TRACEBACK_LIMIT_MAX)
		traceback->pc[nframe] = 0; /* if their number is odd */
	for (__u32 i = 0; i < limit && i < nframe; i += 2) {
		even = mix(even ^ traceback->pc[i]) + i;
		if (i + 1 < limit)
			odd = mix(odd ^ traceback->pc[i + 1]) + i;
	}
	hash = even ^ odd;
	return hash ? hash : 1;
}

#define FIRST_PAGE 4096

static __always_inline void traceback_by_frame_pointers(struct walk *walk)
{
	__u64 frame_pointer = walk->frame.fp, above = walk->frame.sp, next, return_address;
	__u32 nr = 1;

	walk->traceback.pc[0] = walk->frame.pc;
	walk->window_words = 0;
	if (frame_pointer_is_sane(frame_pointer, above))
		window_read(walk, above);
	for (; nr < STEPS_MAX; nr++) {
		if (!frame_pointer_is_sane(frame_pointer, above) ||
		    window_word(walk, frame_pointer, &next) ||
		    window_word(walk, frame_pointer + 8, &return_address) ||
		    return_address < FIRST_PAGE)
			break;
		if (nr < settings.traceback_limit && nr < TRACEBACK_LIMIT_MAX)
			walk->traceback.pc[nr] = return_address;
		above = frame_pointer + 16;
		frame_pointer = next;
	}
	walk->traceback.total_nframe = nr;
}

static __always_inline struct caller caller_at(struct pt_regs *ctx, enum caller_kind kind)
{
	return (struct caller){ PT_REGS_IP(ctx), PT_REGS_SP(ctx), PT_REGS_FP(ctx), kind, LINK_REGISTER(ctx) };
}

static __always_inline struct unwind_frame caller_frame(const struct caller *caller)
{
	return (struct unwind_frame){
		.pc = caller->ip, .sp = caller->sp, .fp = caller->frame_pointer, .is_exact = caller->kind == CALLER_EXACT,
		.link = UNWIND_UNSIGNED(caller->link),
	};
}

/* Fills walk->traceback from walk->frame. */
static __always_inline void traceback_take(struct walk *walk)
{
	struct traceback *traceback = &walk->traceback;

	traceback->end = 0;
	traceback->by_tables = settings.unwinder != UNWINDER_FP;
	traceback->guessed[0] = traceback->guessed[1] = 0;
	traceback->exact[0] = walk->frame.is_exact;
	traceback->exact[1] = 0;
	if (traceback->by_tables)
		traceback_by_tables(walk);
	else
		traceback_by_frame_pointers(walk);
	traceback->nframe = traceback->total_nframe < settings.traceback_limit ?
				    traceback->total_nframe : settings.traceback_limit;
}

#endif
