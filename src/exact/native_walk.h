/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_NATIVE_WALK_H
#define ALLOCSNAP_EXACT_NATIVE_WALK_H

/*
 * The walk over the stack of a thread by unwind tables, in the process itself. A file that includes it defines what
 * native_stacks.h asks for.
 *
 * A thread keeps its last walk: for each frame its stack pointer, its return address, where that lay, and its node in the
 * trie. A walk is a function of its first registers and of the words that it reads. So where a new walk comes to a frame of
 * the memo, and all words that the rest of the last walk has read are the same, the frames are the same, and so is the node.
 * The words are compared without waiting for each other. From the first other one on, the walk goes on by rules, and may
 * meet the memo again further out.
 *
 * A thread that comes by some paths in turns has for each of them the inner end of a walk (a tail), which is compared in the
 * same way. And it keeps for each return address the rule that led on from it, and the node that it had last (a step).
 *
 * Where the recorder has said nothing about some code yet, the stack is copied, and the recorder walks it.
 */

#include "exact/native_memo.h"
#include "exact/native_rules.h"

struct unwind_memory {
	const struct books_native *native;
	uint64_t at; /* of the word that was read last */
};

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

static inline struct books_step *step_of(struct books_native *native, uint64_t pc)
{
	return &native->step[(pc ^ pc >> BOOKS_STEPS_SHIFT) % BOOKS_STEPS];
}

/* Keeps a rule by which most frames are found: all that it reads lies between two stack pointers. */
static void keep_step(struct books_native *native, uint64_t pc, struct unwind_rule rule)
{
	struct books_step *step = step_of(native, pc);
	int fp_at = rule.fp_kind == UNWIND_FP_AT_CFA ? rule.cfa_off + rule.fp_off : rule.fp_off;

	if (rule.cfa_kind != UNWIND_CFA_SP || rule.cfa_off <= 0 || rule.cfa_off & 7)
		return;
	if (rule.fp_kind == UNWIND_FP_SAME)
		fp_at = BOOKS_FP_SAME;
	else if ((rule.fp_kind != UNWIND_FP_AT_CFA && rule.fp_kind != UNWIND_FP_AT_SP) || fp_at < 0 || fp_at >= rule.cfa_off ||
		 fp_at & 7)
		return;
	*(volatile uint64_t *)&step->pc = 0; /* a signal handler may jump out of here */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	step->cfa_at = rule.cfa_off;
	step->fp_at = fp_at;
	step->node_below = BOOKS_NO_NODE * (1 | UINT64_C(1) << 32);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*(volatile uint64_t *)&step->pc = pc;
}

/* May have a step. Where there is no step, its address is 0, as many a return address is at the end of a stack. */
static inline bool is_plain_frame(const struct books_native_frame *frame)
{
	return likely(!(frame->flags & (BOOKS_FRAME_EXACT | BOOKS_FRAME_GUESSED))) && likely(frame->pc);
}

/* As step_natively(), by what is kept of walk[at].pc. False: there is nothing. */
static inline bool step_as_before(struct books_native *native, int at)
{
	struct books_native_frame *from = &native->walk[at];
	const struct books_step *step = step_of(native, from->pc);
	uint64_t sp = from->sp + step->cfa_at, fp_at = from->sp + step->fp_at;
	bool is_saved = step->fp_at != BOOKS_FP_SAME;

	if (unlikely(step->pc != from->pc) || !is_plain_frame(from) || unlikely(!is_known_memory(native, sp - 8)) ||
	    unlikely(from->sp < native->stack_low))
		return false;
	from[1].sp = sp;
	from[1].pc = word_at(sp - 8);
	from[1].fp = word_at(is_saved ? fp_at : (uint64_t)&from->fp);
	from[1].fp_at = is_saved ? fp_at : 0;
	from[1].flags = is_saved ? 0 : from->flags & BOOKS_FRAME_FP_LOST;
	return true;
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
		if (is_plain_frame(from))
			keep_step(native, from->pc, rule);
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

/* The node of a frame below the one of its caller. */
static inline uint32_t node_of_frame(struct books_thread *thread, uint32_t parent, const struct books_native_frame *frame)
{
	struct books_step *step = step_of(&thread->native, frame->pc);
	bool is_kept = likely(step->pc == frame->pc) && is_plain_frame(frame);
	uint32_t node;

	if (is_kept && likely(step->parent == parent))
		return step->node;
	node = native_child(thread, parent, word_of_frame(frame));
	if (is_kept && node != BOOKS_NO_NODE)
		__atomic_store_n(&step->node_below, parent | (uint64_t)node << 32, __ATOMIC_RELAXED);
	return node;
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

static uint64_t *copy_word(uint64_t at)
{
	return BOOKS_AS(uint64_t, BOOKS_AT_COPIES + at % BOOKS_COPIES_BYTES);
}

/* The node of a stack that the recorder walks. 0: there was no room for it. */
static uint32_t copy_stack(const struct books_native *native)
{
	const struct books_native_frame *frame = &native->walk[0];
	uint64_t bytes = bytes_to_copy(native), at;

	if (!bytes || LOAD(HEAD->copied_bytes) - LOAD(HEAD->walked_bytes) > BOOKS_COPIES_WAITING)
		return 0;
	at = __atomic_fetch_add(&HEAD->copied_bytes, sizeof(struct books_copy) + bytes, __ATOMIC_RELAXED);
	*copy_word(at + offsetof(struct books_copy, pc)) = frame->pc;
	*copy_word(at + offsetof(struct books_copy, sp)) = frame->sp;
	*copy_word(at + offsetof(struct books_copy, fp)) = frame->fp;
	for (uint64_t i = 0; i < bytes; i += 8)
		*copy_word(at + sizeof(struct books_copy) + i) = word_at(frame->sp + i);
	__atomic_store_n(copy_word(at), bytes, __ATOMIC_RELEASE);
	return find_or_add_node(0, BOOKS_COPY_WORD(at / 8));
}

/* ---- tails ---- */

#define TAIL_KEYS 2 /* callers of the first frame that choose its place: many functions call the allocator by one wrapper */

static inline struct books_tail *tail_of(struct books_native *native, const struct books_native_frame *first)
{
	uint64_t pc = first->pc, sp = first->sp;

	for (int i = 0; i < TAIL_KEYS; i++) {
		const struct books_step *step = step_of(native, pc);
		uint64_t caller = sp + step->cfa_at;

		if (unlikely(step->pc != pc) || unlikely(!is_known_memory(native, caller - 8)))
			break;
		sp = caller;
		pc = word_at(sp - 8);
	}
	return &native->tail[(pc ^ sp >> 4 ^ pc >> 9) % BOOKS_TAILS];
}

/*
 * The node of a walk if its inner end is as it was in a walk before, and the rest is as the memo has it; else BOOKS_NO_NODE. A
 * frame that was found by its fp, or whose fp is lost, is in no tail: so all that the walk would read is compared.
 */
static inline uint32_t node_by_tail(struct books_native *native, const struct books_native_frame *first, uint32_t frame_nr)
{
	const struct books_tail *tail = tail_of(native, first);
	uint32_t n = tail->frame_nr, m = tail->joined;
	uint64_t differ = 0;

	if (tail->sp != first->sp || tail->pc != first->pc || unlikely(n - 1 >= BOOKS_TAIL_FRAMES) || m >= frame_nr ||
	    unlikely(!is_on_lasting_stack(native)) || unlikely(!is_known_memory(native, first->sp)) ||
	    native->place[m].sp != first->sp + tail->frame[n - 1].at || /* what is between may have been another thread's stack */
	    unlikely(!is_known_memory(native, native->place[m].sp - 8)))
		return BOOKS_NO_NODE;
	for (uint32_t i = 0; i < n; i++)
		differ |= word_at(first->sp + tail->frame[i].at - 8) ^ tail->frame[i].pc;
	differ |= native->place[m].pc ^ tail->frame[n - 1].pc;
	differ |= native->rest[m].node ^ tail->joined_node;
	differ |= native->rest[m].flags & (BOOKS_FRAME_NEEDS_FP | BOOKS_FRAME_FP_LOST | BOOKS_FRAME_EXACT | BOOKS_FRAME_GUESSED);
	return differ || first_changed(native, m) ? BOOKS_NO_NODE : tail->node;
}

/* walk[n] is the frame m of the memo. */
static void keep_tail(struct books_native *native, int n, int m, uint32_t node)
{
	const struct books_native_frame *walk = native->walk;
	struct books_tail *tail = tail_of(native, walk);
	uint32_t flags = 0;

	for (int i = 0; i <= n; i++)
		flags |= walk[i].flags;
	if (flags)
		return;
	*(volatile uint64_t *)&tail->sp = 0; /* a signal handler may jump out of here */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	tail->pc = walk->pc;
	tail->node = node;
	tail->joined = m;
	tail->joined_node = native->rest[m].node;
	tail->frame_nr = n;
	for (int i = 0; i < n; i++) {
		tail->frame[i].pc = walk[i + 1].pc;
		tail->frame[i].at = walk[i + 1].sp - walk->sp;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*(volatile uint64_t *)&tail->sp = walk->sp;
}

/* ---- the walk ---- */

/* The lists of the recorder have changed, or the thread has just begun. */
static __attribute__((noinline)) void forget_native_memo(struct books_thread *thread, uint32_t known_nr, uint64_t closed_nr)
{
	uint64_t replaced_nr = LOAD(HEAD->replaced_nr) | closed_nr << 32;

	if (thread->native.replaced_nr != replaced_nr) {
		for (unsigned int i = 0; i < BOOKS_STEPS; i++)
			thread->native.step[i].pc = 0;
		for (unsigned int i = 0; i < BOOKS_TAILS; i++)
			thread->native.tail[i].sp = 0;
	}
	thread->frame_nr = 0;
	thread->native.known_nr = known_nr;
	thread->native.closed_nr = closed_nr;
	thread->native.replaced_nr = replaced_nr;
	thread->native.stack_low = thread->native.stack_high = 0;
}

/* Nodes of frames [0, n] of the walk, below this one, without a memo. */
static uint32_t nodes_without_memo(struct books_thread *thread, uint32_t node, int n)
{
	for (; n >= 0; n--)
		node = node_of_frame(thread, node, &thread->native.walk[n]);
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
		while (m >= 0 && native->place[m].sp < native->walk[n].sp)
			m--;
		if (m >= 0 && is_frame_of_memo(native, m, &native->walk[n])) {
			if (native->rest[m].flags & BOOKS_FRAME_NEEDS_FP)
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
		if (unlikely(n >= BOOKS_NATIVE_DEEPEST - 1))
			*ret_end = UNWIND_BUSY;
		else if (unlikely(!step_as_before(native, n)))
			*ret_end = step_natively(native, n);
		n += *ret_end == UNWIND_GOES_ON;
	}
	*ret_n = n;
	return *ret_end == UNWIND_GOES_ON ? m : -1;
}

static __attribute__((noinline)) uint32_t walk_natively(struct books_thread *thread, const struct books_native_frame *first)
{
	struct books_native *native = &thread->native;
	int n, end, m, at, frame_nr = thread->frame_nr;
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
	node = m >= 0 ? native->rest[m].node : end_node(thread, end);
	if (unlikely(m + n + 2 >= BOOKS_NATIVE_DEEPEST) || unlikely(end == UNWIND_BUSY))
		return nodes_without_memo(thread, node, n - (m >= 0));
	is_sure = m >= 0 || end == UNWIND_ROOT || !(native->walk[n].flags & BOOKS_FRAME_UNCHECKED);
	forget_special(native, m >= 0 ? m : 0);
	at = m;
	if (m >= 0) {
		remember_frame(native, m, &native->walk[n], node);
	} else if (end == UNWIND_NO_CODE && n && !(native->walk[n].flags & BOOKS_FRAME_EXACT)) {
		native->walk[n].flags |= BOOKS_FRAME_NONE;
		remember_frame(native, ++at, &native->walk[n--], node);
	}
	for (int i = m >= 0 ? n - 1 : n; i >= 0; i--) {
		node = node_of_frame(thread, node, &native->walk[i]);
		remember_frame(native, ++at, &native->walk[i], node);
	}
	if (m >= 0 && n > 0 && n <= BOOKS_TAIL_FRAMES && node != BOOKS_NO_NODE)
		keep_tail(native, n, m, node);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	thread->frame_nr = is_sure && node != BOOKS_NO_NODE ? at + 1 : 0;
	return node;
}

/* The node of the call that returns to frame[1], where rbp is frame[0]. */
static inline uint32_t walk_native_by_memo(struct books_thread *thread, const uint64_t *frame)
{
	const struct books_native_frame first = { .sp = (uint64_t)(frame + 2), .pc = frame[1], .fp = frame[0] };
	struct books_native *native = &thread->native;
	uint32_t known_nr = LOAD(HEAD->known_nr), node = BOOKS_NO_NODE;
	uint64_t closed_nr = LOAD(HEAD->closed_nr);
	int m = (int)thread->frame_nr - 1;

	if (unlikely(known_nr != native->known_nr) || unlikely(closed_nr != native->closed_nr))
		forget_native_memo(thread, known_nr, closed_nr);
	else if (m >= 0 && is_frame_of_memo(native, m, &first) && !first_changed(native, m))
		return native->rest[m].node;
	else if (m >= 0)
		node = node_by_tail(native, &first, m + 1);
	return likely(node != BOOKS_NO_NODE) ? node : walk_natively(thread, &first);
}

#ifndef walk_native /* tests compare it */
#define walk_native walk_native_by_memo
#endif

#endif
