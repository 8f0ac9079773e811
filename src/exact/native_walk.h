/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_NATIVE_WALK_H
#define ALLOCSNAP_EXACT_NATIVE_WALK_H

/*
 * The walk over the stack of a thread by unwind tables, in the process itself.
 *
 * A thread keeps its last walk: for each frame its stack pointer, its return address, where that lay, and its node in the
 * trie. A walk is a function of its first registers and of the words that it reads. So where a new walk comes to a frame of
 * the memo, and all words that the rest of the last walk has read are the same, the frames are the same, and so is the node.
 * The words are compared without waiting for each other. From the first other one on, the walk goes on by rules, and may
 * meet the memo again further out.
 *
 * Words are read only from memory that is known to be readable: the thread's own stack, and stacks that the recorder has found
 * or that the kernel was asked about. Where the recorder has said nothing about some code yet, the stack is copied, and the
 * recorder walks it.
 *
 * A file that includes it defines
 *
 *	BOOKS_MAIN_STACK_END	an address at the end of the main thread's stack
 *	BOOKS_MAIN_POINTER	the main thread's thread pointer
 *	BOOKS_MAY_CALL		whether a thread may make a system call: a filter (seccomp) may end the process there
 */

#include <errno.h>
#include <sys/syscall.h>

#include "exact/books_writer.h"
#include "exact/native_rules.h"

struct unwind_memory {
	const struct books_native *native;
	uint64_t at; /* of the word that was read last */
};

static inline bool is_known_memory(const struct books_native *native, uint64_t address)
{
	return address - native->stack_low < native->stack_high - native->stack_low && !(address & 7);
}

static inline int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address, bpf_u64 *ret_word)
{
	if (unlikely(!is_known_memory(memory->native, address)))
		return -1;
	memory->at = address;
	*ret_word = word_at(address);
	return 0;
}

#include "shared/unwind_step.h"

/* ---- rules ---- */

#define NATIVE_RULES_SHIFT 15
#define REPLACED_MULTIPLIER UINT64_C(0xd6e8feb86659fd93)
#define UNWIND_NOT_KNOWN UNWIND_END_NR /* the recorder has not said yet what is there */

/* Each word fits its check only if both were written together. */
static struct native_rule {
	uint64_t check, word;
} native_rule[1u << NATIVE_RULES_SHIFT];

static inline const struct books_known *books_known(uint32_t nr)
{
	return BOOKS_AS(struct books_known, BOOKS_AT_KNOWN + nr % 2 * BOOKS_KNOWN_BYTES);
}

/* *ret_word: a rule, or UNWIND_MISS(). False: the recorder has not said yet. */
static __attribute__((noinline)) bool find_native_rule(uint64_t address, uint64_t *ret_word)
{
	union { struct unwind_rule rule; uint64_t word; } found = {};
	uint32_t nr = __atomic_load_n(&HEAD->known_nr, __ATOMIC_ACQUIRE);
	const struct books_known *known = books_known(nr);
	const struct books_region *region = find_region(known, address);
	bool holds = region && LOAD(known->closed_nr) == LOAD(HEAD->closed_nr);

	if (holds && region->page_nr)
		found.rule = rule_in_region(region, BOOKS_AS(uint64_t, BOOKS_AT_TABLES), address);
	else if (holds)
		found.word = UNWIND_MISS(region->first_page);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (holds && LOAD(HEAD->known_nr) == nr) {
		*ret_word = found.word;
		return true;
	}
	__atomic_store_n(&HEAD->wanted_code, address, __ATOMIC_RELAXED);
	return false;
}

/* As unwind_rule_at() of the kernel side: UNWIND_GOES_ON, or why there is no rule. */
static inline int native_rule_at(const struct books_native *native, uint64_t address, struct unwind_rule *ret)
{
	union { struct unwind_rule rule; uint64_t word; } found;
	uint64_t key = address * MULTIPLIER + native->replaced_nr * REPLACED_MULTIPLIER;
	struct native_rule *known = &native_rule[key >> (64 - NATIVE_RULES_SHIFT)];

	found.word = LOAD(known->word);
	if (unlikely((LOAD(known->check) ^ found.word) != key)) {
		if (!find_native_rule(address, &found.word))
			return UNWIND_NOT_KNOWN;
		__atomic_store_n(&known->word, found.word, __ATOMIC_RELAXED);
		__atomic_store_n(&known->check, key ^ found.word, __ATOMIC_RELAXED);
	}
	if (unlikely(UNWIND_IS_MISS(found.word)))
		return UNWIND_MISS_END(found.word);
	*ret = found.rule;
	return UNWIND_GOES_ON;
}

/* ---- stacks ---- */

#define MAIN_STACK_MOST (UINT64_C(128) << 20) /* below its end nothing else is mapped (mmap_base(), arch/x86/mm/mmap.c) */
#define OWN_STACK_MOST (UINT64_C(64) << 20)
#define OTHER_STACK_MOST (UINT64_C(1) << 20) /* until the recorder has said where it ends */

/*
 * Whether the kernel can read a word there. It reads the set before it looks at what to do with it, and ~0 is nothing to do:
 * so nothing changes (rt_sigprocmask(), kernel/signal.c). A thread asks once about a page of its stack.
 */
static bool is_readable(uint64_t address)
{
	register uint64_t bytes __asm__("r10") = sizeof(uint64_t);
	int64_t result;

	if (!BOOKS_MAY_CALL)
		return false;
	__asm__ volatile("syscall" : "=a"(result)
			 : "a"(SYS_rt_sigprocmask), "D"(~UINT64_C(0)), "S"(address), "d"(UINT64_C(0)), "r"(bytes)
			 : "rcx", "r11", "memory");
	return result == -EINVAL; /* a filter of system calls may answer anything else */
}

/* The first page of [page, end) that cannot be read; or end. */
static uint64_t end_of_readable(uint64_t page, uint64_t end)
{
	while (page < end && is_readable(page))
		page += BOOKS_PAGE;
	return page < end ? page : end;
}

/* The stack is there as long as the thread. Another one may be unmapped at any time while the thread is not on it. */
static inline bool is_on_lasting_stack(const struct books_native *native)
{
	return native->stack_high == native->own_high || native->stack_high == (BOOKS_MAIN_STACK_END & ~UINT64_C(7));
}

/* Where the lasting stack of an address ends. 0: the address is on another stack. */
static uint64_t end_of_lasting_stack(const struct books_native *native, uint64_t address)
{
	if (BOOKS_MAIN_STACK_END - address < MAIN_STACK_MOST)
		return BOOKS_MAIN_STACK_END;
	return address - native->own_low < native->own_high - native->own_low ? native->own_high : 0;
}

static void use_stack(struct books_native *native, uint64_t low, uint64_t high)
{
	native->stack_low = low;
	native->stack_high = high;
}

/* The main thread's stack ends where the kernel has put what the program begins with. */
static bool find_main_stack(struct books_native *native, uint64_t sp)
{
	uint64_t end = BOOKS_MAIN_STACK_END & ~UINT64_C(7);

	if (end - sp > MAIN_STACK_MOST)
		return false;
	use_stack(native, sp & ~(BOOKS_PAGE - 1), end);
	return true;
}

/*
 * The C library's part of a thread ends its stack (glibc, musl): the thread pointer leads there. The main thread's part lies
 * apart, and what is below it may be any stack, that is unmapped at any time. 0: the main thread's.
 */
static inline uint64_t end_of_own_stack(void)
{
	return own_thread_pointer() == BOOKS_MAIN_POINTER ? 0 : own_thread_pointer() & ~UINT64_C(7);
}

static void use_own_stack(struct books_native *native, uint64_t low, uint64_t high)
{
	native->own_low = low;
	native->own_high = high;
	use_stack(native, low, high);
}

/* Stacks that the recorder has found. */
static bool find_known_stack(struct books_native *native, uint64_t sp)
{
	uint32_t nr = __atomic_load_n(&HEAD->known_nr, __ATOMIC_ACQUIRE);
	const struct books_known *known = books_known(nr);
	uint32_t range_nr = LOAD(known->range_nr);

	for (uint32_t i = 0; i < range_nr && i < BOOKS_RANGES_MAX; i++) {
		use_stack(native, LOAD(known->range[i].start), LOAD(known->range[i].end));
		if (!is_known_memory(native, sp))
			continue;
		if (end_of_own_stack() > sp && is_known_memory(native, end_of_own_stack() - 8))
			use_own_stack(native, sp & ~(BOOKS_PAGE - 1), end_of_own_stack());
		return LOAD(HEAD->known_nr) == nr;
	}
	return false;
}

static bool find_own_stack(struct books_native *native, uint64_t sp)
{
	uint64_t page = sp & ~(BOOKS_PAGE - 1), top = end_of_own_stack();
	uint64_t end = native->own_high ? native->own_low : top;

	if (!top || end - page > OWN_STACK_MOST || end_of_readable(page, end) != end)
		return false;
	use_own_stack(native, page, top);
	return true;
}

/* Which memory from a place in a stack on can be read. */
static __attribute__((noinline)) void find_stack(struct books_native *native, uint64_t sp)
{
	uint64_t page = sp & ~(BOOKS_PAGE - 1);

	use_stack(native, native->own_low, native->own_high);
	if (is_known_memory(native, sp) || find_main_stack(native, sp) || find_known_stack(native, sp) || find_own_stack(native, sp))
		return;
	use_stack(native, page, end_of_readable(page, page + OTHER_STACK_MOST));
	__atomic_store_n(&HEAD->wanted_stack, sp, __ATOMIC_RELAXED);
}

/* ---- one step ---- */

/* walk[at] uses fp: so do the frames that have handed it on. */
static void note_fp_use(struct books_native_frame *walk, int at)
{
	for (; at >= 0 && !(walk[at].flags & BOOKS_FRAME_NEEDS_FP); at--) {
		walk[at].flags |= BOOKS_FRAME_NEEDS_FP;
		if (walk[at].fp_at)
			return;
	}
}

#define FRAME_BYTES_MAX (UINT64_C(1) << 20) /* of one function */

/* As step_by_frame_pointer() of the kernel side. fp may be any number; where a stack is that may be gone, the kernel is asked. */
static int guess_caller(struct unwind_frame *frame, struct unwind_memory *memory, int end)
{
	uint64_t at = frame->fp;

	if (frame->is_fp_lost)
		return UNWIND_NO_FP;
	if (at & 7 || at - frame->sp >= FRAME_BYTES_MAX)
		return end;
	if (!is_on_lasting_stack(memory->native) && !(is_readable(at) && is_readable(at + 8)))
		return UNWIND_UNREADABLE;
	if (unwind_memory__read(memory, at + 8, &frame->pc) || unwind_memory__read(memory, at, &frame->fp))
		return UNWIND_UNREADABLE;
	frame->sp = at + 16;
	frame->is_exact = 0;
	return UNWIND_GOES_ON;
}

static inline bool restores_fp(struct unwind_rule rule, bool was_lost)
{
	return rule.cfa_kind == UNWIND_CFA_SIGNAL || rule.fp_kind == UNWIND_FP_AT_CFA || rule.fp_kind == UNWIND_FP_AT_SP ||
	       (rule.fp_kind == UNWIND_FP_AT_FP && !was_lost);
}

/* From walk[at] to walk[at + 1]. Returns UNWIND_GOES_ON, or why there is no caller. */
static int step_natively(struct books_native *native, int at)
{
	struct books_native_frame *from = &native->walk[at];
	bool was_lost = from->flags & BOOKS_FRAME_FP_LOST, restores;
	struct unwind_frame frame = { from->pc, from->sp, from->fp, !!(from->flags & BOOKS_FRAME_EXACT), was_lost, 0 };
	struct unwind_memory memory = { native, 0 };
	struct unwind_rule rule = {};
	int end = native_rule_at(native, unwind_rule_address(&frame), &rule);
	bool is_guess = end == UNWIND_NO_TABLE || (end == UNWIND_GOES_ON && rule.cfa_kind == UNWIND_CFA_NONE);
	uint32_t flags = 0;

	if (end != UNWIND_GOES_ON && !is_guess)
		return end;
	if ((is_guess || rule.cfa_kind == UNWIND_CFA_FP || rule.cfa_kind == UNWIND_CFA_FP_DEREF ||
	     rule.fp_kind == UNWIND_FP_AT_FP) && !was_lost)
		note_fp_use(native->walk, at);
	if (is_guess) {
		end = guess_caller(&frame, &memory, end ?: UNWIND_NO_RULE);
		flags = BOOKS_FRAME_GUESSED;
		restores = true;
	} else {
		end = unwind_step(rule, &frame, &memory);
		restores = restores_fp(rule, was_lost);
		if (rule.cfa_kind > UNWIND_CFA_PLT)
			flags = BOOKS_FRAME_UNCHECKED;
	}
	if (end != UNWIND_GOES_ON) {
		from->flags |= flags;
		return end;
	}
	flags |= (frame.is_exact ? BOOKS_FRAME_EXACT : 0) | (frame.is_fp_lost ? BOOKS_FRAME_FP_LOST : 0);
	from[1] = (struct books_native_frame){ frame.sp, frame.pc, frame.fp, restores ? memory.at : 0, 0, flags };
	if (unlikely(!is_known_memory(native, frame.sp)) && frame.is_exact) /* from an alternate stack */
		find_stack(native, frame.sp);
	return UNWIND_GOES_ON;
}

/* ---- the memo ---- */

static uint64_t never_same = 1;

static inline bool is_changed(const struct books_native *native, int i)
{
	return word_at(native->check[i].place) != native->check[i].word;
}

/* Whether fp, which frame[i] and those further out need, is where it was, and the same. */
static int first_changed_fp(const struct books_native *native, int from, int other)
{
	for (int i = from; i >= other; i--)
		if (native->needs_fp[i / 64] >> i % 64 & 1 && word_at(native->frame[i].fp_at) != native->frame[i].fp)
			return i + 1;
	return other;
}

static inline bool needs_any_fp(const struct books_native *native, int from)
{
	uint64_t bits = 0;

	for (int i = from / 64; i >= 0; i--)
		bits |= native->needs_fp[i];
	return bits;
}

/* Reads no word that a walk would not read: another stack may lie there now, that ends before the last one. */
static __attribute__((noinline)) int first_changed_one_by_one(const struct books_native *native, int at)
{
	int i = at - 1;

	while (i >= 0 && !is_changed(native, i) && first_changed_fp(native, i, i) == i)
		i--;
	return i + 1;
}

/*
 * frame[at] is a frame of now. Returns 0 if all further out are as they were; otherwise frame[result … at] are, and the one
 * before them is not.
 */
static inline int first_changed(const struct books_native *native, int at)
{
	int i = at - 1;

	if (unlikely(!is_on_lasting_stack(native)))
		return first_changed_one_by_one(native, at);
	while (i >= 3 && !(is_changed(native, i) | is_changed(native, i - 1) | is_changed(native, i - 2) | is_changed(native, i - 3)))
		i -= 4;
	while (i >= 0 && !is_changed(native, i))
		i--;
	return at && needs_any_fp(native, at - 1) ? first_changed_fp(native, at - 1, i + 1) : i + 1;
}

static inline bool is_frame_of_memo(const struct books_native_frame *known, const struct books_native_frame *frame)
{
	bool needs_fp = known->flags & BOOKS_FRAME_NEEDS_FP;

	return known->sp == frame->sp && known->pc == frame->pc && !((known->flags | frame->flags) & BOOKS_FRAME_EXACT) &&
	       !((known->flags ^ frame->flags) & BOOKS_FRAME_GUESSED) &&
	       (!needs_fp || (!(frame->flags & BOOKS_FRAME_FP_LOST) && known->fp == frame->fp));
}

static void remember_frame(struct books_native *native, int at, const struct books_native_frame *frame, uint32_t node)
{
	bool is_unchecked = frame->flags & (BOOKS_FRAME_UNCHECKED | BOOKS_FRAME_EXACT);
	uint64_t bit = UINT64_C(1) << at % 64;

	native->frame[at] = *frame;
	native->frame[at].node = node;
	native->check[at].place = is_unchecked ? (uint64_t)&never_same : frame->sp - 8;
	native->check[at].word = is_unchecked ? 0 : frame->pc;
	if (frame->flags & BOOKS_FRAME_NEEDS_FP && frame->fp_at)
		native->needs_fp[at / 64] |= bit;
	else
		native->needs_fp[at / 64] &= ~bit;
}

/*
 * walk[n] is frame[at], and frames [other, at] are as they were: they follow in walk[]. The memo
 * checks an fp only where a frame needed it, so each fp is read again. Returns the place of the last one.
 */
static int take_from_memo(struct books_native *native, int n, int at, int other)
{
	for (int i = at - 1; i >= other; i--) {
		struct books_native_frame *last = &native->walk[n++];

		native->walk[n] = native->frame[i];
		if (native->walk[n].fp_at) {
			native->walk[n].fp = word_at(native->walk[n].fp_at);
		} else if (!(native->walk[n].flags & BOOKS_FRAME_FP_LOST)) {
			native->walk[n].fp = last->fp;
			native->walk[n].flags |= last->flags & BOOKS_FRAME_FP_LOST;
		}
	}
	return n;
}

/* ---- nodes ---- */

static inline uint32_t native_child(struct books_thread *thread, uint32_t parent, uint64_t word)
{
	struct books_child *child = &thread->child[((word ^ (uint64_t)parent << 33) * MULTIPLIER >> 32) % BOOKS_CHILDREN];

	if (likely(child->instruction == word && child->parent == parent))
		return child->node;
	if (unlikely(parent == BOOKS_NO_NODE))
		return parent;
	*child = (struct books_child){ word, parent, find_or_add_node(parent, word) };
	return child->node;
}

static inline uint64_t word_of_frame(const struct books_native_frame *frame)
{
	return BOOKS_PC(frame->pc) | (frame->flags & BOOKS_FRAME_GUESSED ? BOOKS_PC_GUESSED : 0) |
	       (frame->flags & BOOKS_FRAME_EXACT ? BOOKS_PC_EXACT : 0);
}

/* From the first frame on. The end of a stack that was known may be another one's now. */
static uint64_t bytes_to_copy(const struct books_native *native)
{
	uint64_t sp = native->walk[0].sp, end = native->stack_high;

	end = end - sp < BOOKS_COPY_MOST ? end : sp + BOOKS_COPY_MOST;
	if (!is_on_lasting_stack(native))
		end = end_of_readable(sp & ~(BOOKS_PAGE - 1), end);
	return end > sp ? (end - sp) & ~UINT64_C(7) : 0;
}

/* The node of a stack that the recorder walks. 0: there was no room for it. */
static uint32_t copy_stack(const struct books_native *native)
{
	const struct books_native_frame *frame = &native->walk[0];
	uint64_t bytes = bytes_to_copy(native), at;
	struct books_copy *copy;

	if (!bytes || LOAD(HEAD->copied_bytes) - LOAD(HEAD->walked_bytes) > BOOKS_COPIES_WAITING)
		return 0;
	at = __atomic_fetch_add(&HEAD->copied_bytes, sizeof(*copy) + bytes, __ATOMIC_RELAXED);
	if (at + sizeof(*copy) + bytes > BOOKS_COPIES_BYTES) {
		__atomic_store_n(&HEAD->copied_bytes, BOOKS_COPIES_BYTES, __ATOMIC_RELAXED);
		return 0;
	}
	copy = BOOKS_AS(struct books_copy, BOOKS_AT_COPIES + at);
	copy->pc = frame->pc;
	copy->sp = frame->sp;
	copy->fp = frame->fp;
	for (uint64_t i = 0; i < bytes / 8; i++)
		((uint64_t *)(copy + 1))[i] = word_at(frame->sp + i * 8);
	__atomic_store_n(&copy->bytes, bytes, __ATOMIC_RELEASE);
	return find_or_add_node(0, BOOKS_END_WORD(BOOKS_END_COPIED, at / 8));
}

/* ---- the walk ---- */

/* The lists of the recorder have changed, or the thread has just begun. */
static __attribute__((noinline)) void forget_native_memo(struct books_thread *thread, uint32_t known_nr, uint64_t closed_nr)
{
	thread->frame_nr = 0;
	thread->native.known_nr = known_nr;
	thread->native.closed_nr = closed_nr;
	thread->native.replaced_nr = LOAD(HEAD->replaced_nr) | closed_nr << 32;
	thread->native.stack_low = thread->native.stack_high = 0;
}

/* Nodes of frames [0, n] of the walk, below this one, without a memo. */
static uint32_t nodes_without_memo(struct books_thread *thread, uint32_t node, int n)
{
	for (; n >= 0; n--)
		node = native_child(thread, node, word_of_frame(&thread->native.walk[n]));
	return node;
}

static inline uint32_t end_node(struct books_thread *thread, int end)
{
	return native_child(thread, 0, BOOKS_END_WORD(end, thread->native.replaced_nr));
}

/*
 * Collects frames in walk[0 … *ret_n] until all that are further out are in the memo: returns the place there of the last one.
 * -1: the walk has ended, and *ret_end says why.
 */
static int collect_native_frames(struct books_native *native, int frame_nr, int *ret_n, int *ret_end)
{
	int m = frame_nr - 1, n = 0, other;

	for (*ret_end = UNWIND_GOES_ON; *ret_end == UNWIND_GOES_ON;) {
		while (m >= 0 && native->frame[m].sp < native->walk[n].sp)
			m--;
		if (m >= 0 && is_frame_of_memo(&native->frame[m], &native->walk[n])) {
			if (native->frame[m].flags & BOOKS_FRAME_NEEDS_FP)
				note_fp_use(native->walk, n);
			other = first_changed(native, m);
			if (!other)
				break;
			if (n + m - other < BOOKS_NATIVE_DEEPEST - 1) {
				n = take_from_memo(native, n, m, other);
				m = other - 1;
			} else {
				m = -1; /* more than there is room for: as many as without a memo */
			}
		}
		*ret_end = n < BOOKS_NATIVE_DEEPEST - 1 ? step_natively(native, n) : UNWIND_BUSY;
		n += *ret_end == UNWIND_GOES_ON;
	}
	*ret_n = n;
	return *ret_end == UNWIND_GOES_ON ? m : -1;
}

static __attribute__((noinline)) uint32_t walk_natively(struct books_thread *thread, const struct books_native_frame *first)
{
	struct books_native *native = &thread->native;
	int n, end, m, frame_nr = thread->frame_nr;
	uint32_t node;
	bool is_sure;

	thread->frame_nr = 0; /* a signal handler may jump out of here */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	native->walk[0] = *first;
	if (unlikely(!is_known_memory(native, first->sp - 8))) /* what is at sp may be of another mapping */
		find_stack(native, first->sp - 8);
	m = collect_native_frames(native, frame_nr, &n, &end);
	if (unlikely(end == UNWIND_NOT_KNOWN)) {
		find_stack(native, first->sp - 8); /* of the first frame again */
		node = copy_stack(native);
		if (node)
			return node;
		count_books_loss(BOOKS_DEEP);
		return nodes_without_memo(thread, end_node(thread, UNWIND_NO_TABLE), n);
	}
	if (unlikely(end == UNWIND_BUSY))
		count_books_loss(BOOKS_DEEP);
	thread->steps += n;
	node = m >= 0 ? native->frame[m].node : end_node(thread, end);
	if (unlikely(m + n + 2 >= BOOKS_NATIVE_DEEPEST) || unlikely(end == UNWIND_BUSY))
		return nodes_without_memo(thread, node, n - (m >= 0));
	is_sure = m >= 0 || end == UNWIND_ROOT || !(native->walk[n].flags & BOOKS_FRAME_UNCHECKED);
	if (m >= 0) {
		remember_frame(native, m, &native->walk[n--], node);
	} else if (end == UNWIND_NO_CODE && n && !(native->walk[n].flags & BOOKS_FRAME_EXACT)) {
		n--; /* it is no frame */
	}
	for (; n >= 0; n--) {
		node = native_child(thread, node, word_of_frame(&native->walk[n]));
		remember_frame(native, ++m, &native->walk[n], node);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	thread->frame_nr = is_sure && node != BOOKS_NO_NODE ? m + 1 : 0;
	return node;
}

/* The node of the call that returns to frame[1], where rbp is frame[0]. */
static inline uint32_t walk_native_by_memo(struct books_thread *thread, const uint64_t *frame)
{
	const struct books_native_frame first = { .sp = (uint64_t)(frame + 2), .pc = frame[1], .fp = frame[0] };
	struct books_native *native = &thread->native;
	uint32_t known_nr = LOAD(HEAD->known_nr);
	uint64_t closed_nr = LOAD(HEAD->closed_nr);
	int m = (int)thread->frame_nr - 1;

	if (unlikely(known_nr != native->known_nr) || unlikely(closed_nr != native->closed_nr))
		forget_native_memo(thread, known_nr, closed_nr);
	else if (m >= 0 && is_frame_of_memo(&native->frame[m], &first) && !first_changed(native, m))
		return native->frame[m].node;
	return walk_natively(thread, &first);
}

#ifndef walk_native /* tests compare it */
#define walk_native walk_native_by_memo
#endif

#endif
