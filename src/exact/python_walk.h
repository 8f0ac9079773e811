/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_PYTHON_WALK_H
#define ALLOCSNAP_EXACT_PYTHON_WALK_H

/*
 * The walk over the frames of a CPython's thread, in the process itself.
 *
 * A thread keeps its last walk over the frames: for each frame its address, its instruction and its node in the trie. A walk
 * is a function of the words that it reads. So where a frame's address is in the memo, and all words from there on are the
 * same, the frames are the same, and so is the node. From 3.11 on an instruction lies in its code object, so that it says
 * which one, too: two words a frame. Until 3.10 frames are objects: the memory of one that has ended becomes the frame of
 * other code, and an instruction is a number, so a frame's code is read, too. A frame is read only after the one that refers
 * to it was found: what the memo has of others may be unmapped.
 *
 * No reference to a code object is held. At first sight, its frame holds it: what names it is copied into the books. The
 * word of its block has a bit for it, so its free is seen by the load that each free makes anyway, and all that threads
 * remember of its addresses is forgotten.
 */

#include <stdint.h>

#include "exact/python_hooks.h"

__attribute__((visibility("hidden"))) struct python_hooks python_hooks = { .books = 1 }; /* in .data */
__attribute__((visibility("hidden"), aligned(PYTHON_HOOKS_ON_BYTES))) union {
	volatile uint64_t is_on;
	char page[PYTHON_HOOKS_ON_BYTES];
} python_hooks_on;

#define SETTINGS (&python_hooks)

static inline uint32_t own_tid(void)
{
	uint32_t tid;

	__asm__("movl %%fs:%c1, %0" : "=r"(tid) : "i"(PYTHON_HOOKS_TID_AT));
	return tid;
}

#define BOOKS_BASE python_hooks.books
#define BOOKS_ARE_ON python_hooks_on.is_on
#define BOOKS_OWN_TID own_tid()

#include "exact/books_writer.h"
#include "shared/python_calls.h"

static uint32_t half_at(uint64_t address)
{
	return __atomic_load_n((const uint32_t *)address, __ATOMIC_RELAXED);
}

/*
 * An instruction, in one word. From 3.11 on its address, which lies in its code object. Until 3.10 the address of the code
 * object, which is a multiple of 8 below 2^47, and the number of the instruction: -1 before the first one. What is
 * INSTRUCTION_UNTOLD or larger as a number is no instruction that can be remembered.
 */
#define INSTRUCTION_CODE_SHIFT 17
#define INSTRUCTION_NUMBER_BITS 20
#define INSTRUCTION_UNTOLD ((1u << INSTRUCTION_NUMBER_BITS) - 1)

static inline bool frames_are_objects(void)
{
	return SETTINGS->offsets.instruction_kind != PYTHON_POINTER;
}

/* ---- code objects ---- */

#define LOCK_TRIES 10000
#define LOCK_WAITED_FOR 2 /* its owner has it for too long: no thread waits until it has left */
#define TEXT_MOST (UINT64_C(1) << 20) /* of one code object's part */

/* False: another thread has it for so long that it may be waiting for a processor. */
static bool take_codes(void)
{
	uint32_t is = 0;

	for (int i = 0; i < LOCK_TRIES && is != LOCK_WAITED_FOR; i++) {
		is = 0;
		if (__atomic_compare_exchange_n(&HEAD->codes_lock, &is, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
		__builtin_ia32_pause();
	}
	is = 1;
	__atomic_compare_exchange_n(&HEAD->codes_lock, &is, LOCK_WAITED_FOR, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return false;
}

static void leave_codes(void)
{
	__atomic_store_n(&HEAD->codes_lock, 0, __ATOMIC_RELEASE);
}

static inline struct books_code_slot *code_slot(uint64_t code, uint32_t try)
{
	uint32_t hash = (code >> 4) * MULTIPLIER >> (64 - BOOKS_CODE_SHIFT);

	return BOOKS_AS(struct books_code_slot, BOOKS_AT_CODE_SLOTS) + (hash + try) % BOOKS_CODE_SLOTS;
}

static struct books_code_slot *find_code_slot(uint64_t code)
{
	for (uint32_t i = 0; i < TRIES; i++) {
		struct books_code_slot *slot = code_slot(code, i);
		uint64_t address = __atomic_load_n(&slot->address, __ATOMIC_ACQUIRE);

		if (address == code)
			return slot;
		if (!address)
			break;
	}
	return NULL;
}

static struct books_code_slot *find_code_room(uint64_t code)
{
	for (uint32_t i = 0; i < TRIES; i++)
		if (code_slot(code, i)->address <= BOOKS_CODE_GONE)
			return code_slot(code, i);
	return NULL;
}

/* A part of a code object. */
struct part {
	uint64_t from, bytes;
};

static char *copy_part(char *to, const struct part *part)
{
	for (uint64_t i = 0; i < part->bytes; i++)
		to[i] = *(const volatile char *)(part->from + i);
	return to + part->bytes;
}

static struct part string_part(uint64_t string, uint32_t state)
{
	const struct python_offsets *offsets = &SETTINGS->offsets;

	return (struct part){
		string + (PYTHON_STRING_IS_ASCII(state) ? offsets->string_ascii : offsets->string_compact),
		word_at(string + offsets->string_length) * PYTHON_STRING_BYTES(state),
	};
}

/* The id of a code object with the same content, or 0, and where to note a new one. */
static uint32_t find_equal(const struct books_code *text, uint64_t words, uint32_t **ret_place)
{
	const uint64_t *is = (const uint64_t *)text;
	uint64_t hash = 0;

	*ret_place = NULL;
	for (uint64_t i = 1; i < words; i++) /* but for its id: first_line is in the upper half of the first word */
		hash = (hash ^ is[i]) * MULTIPLIER, hash ^= hash >> 32;
	hash = (hash ^ (uint32_t)text->first_line) * MULTIPLIER >> (64 - BOOKS_CODE_SHIFT);
	for (uint32_t i = 0; i < TRIES; i++) {
		uint32_t *place = BOOKS_AS(uint32_t, BOOKS_AT_CONTENTS) + (hash + i) % BOOKS_CODE_SLOTS;
		const struct books_code *other;
		uint64_t k = 1;

		if (!*place) {
			*ret_place = place;
			return 0;
		}
		other = BOOKS_AS(struct books_code, BOOKS_AT_TEXT + UINT64_C(8) * BOOKS_AS(uint32_t, BOOKS_AT_CODES)[*place]);
		while (k < words && ((const uint64_t *)other)[k] == is[k])
			k++;
		if (k == words && other->first_line == text->first_line)
			return *place;
	}
	return 0;
}

/* Copies what names the code object behind the other texts. Returns its id; 0: no room. Call it with the lock. */
static uint32_t add_code_text(uint64_t code)
{
	const struct python_offsets *offsets = &SETTINGS->offsets;
	uint64_t file = word_at(code + offsets->code_filename), name = word_at(code + offsets->code_name);
	uint64_t lines = word_at(code + offsets->code_lines), bytes;
	uint32_t file_state = half_at(file + offsets->string_state), name_state = half_at(name + offsets->string_state);
	const struct part part[] = {
		string_part(file, file_state), string_part(name, name_state),
		{ lines + offsets->bytes_data, word_at(lines + offsets->bytes_length) },
	};
	struct books_code *text = BOOKS_AS(struct books_code, BOOKS_AT_TEXT + HEAD->text_bytes);
	char *to = (char *)(text + 1);
	uint32_t id, *place;

	if (part[0].bytes > TEXT_MOST || part[1].bytes > TEXT_MOST || part[2].bytes > TEXT_MOST)
		return 0;
	bytes = (sizeof(*text) + part[0].bytes + part[1].bytes + part[2].bytes + 7) / 8 * 8;
	if (HEAD->text_bytes + bytes > BOOKS_TEXT_BYTES || HEAD->code_nr + 1 >= BOOKS_CODES_MAX)
		return 0;
	((uint64_t *)text)[bytes / 8 - 1] = 0;
	*text = (struct books_code){
		.id = HEAD->code_nr + 1,
		.first_line = half_at(code + offsets->code_first_line),
		.file_state = file_state, .name_state = name_state,
		.file_bytes = part[0].bytes, .name_bytes = part[1].bytes, .line_bytes = part[2].bytes,
	};
	for (int i = 0; i < 3; i++)
		to = copy_part(to, &part[i]);
	id = find_equal(text, bytes / 8, &place);
	if (id)
		return id;
	id = text->id;
	BOOKS_AS(uint32_t, BOOKS_AT_CODES)[id] = HEAD->text_bytes / 8;
	if (place)
		*place = id;
	HEAD->text_bytes += bytes;
	__atomic_store_n(&HEAD->code_nr, id, __ATOMIC_RELEASE);
	return id;
}

/* The free of a code object must be seen: its block gets a mark, or an entry if it is older than the recording. */
static bool mark_code(uint64_t code)
{
	uint64_t *word = small_word(code);
	struct books_large *large = word && *word ? NULL : find_large(code);

	if (word && *word)
		__atomic_fetch_or(word, BLOCK_IS_CODE, __ATOMIC_RELAXED);
	else if (large)
		__atomic_fetch_or(&large->word, BLOCK_IS_CODE, __ATOMIC_RELAXED);
	else
		return put_in_books(&(struct books_large){ code, BLOCK_IS_CODE, BOOKS_SMALL_MAX + 1 });
	return true;
}

/* Frames at an instruction before this one have not begun. Until 3.10 tracemalloc has all frames. */
static int32_t first_traceable_of(uint64_t code)
{
	return frames_are_objects() ? INT32_MIN : (int32_t)half_at(code + SETTINGS->offsets.code_first_traceable);
}

/* At first sight, its frame holds it, so all of it is there. NULL: no room, or another thread has the lock. */
static __attribute__((noinline)) const struct books_code_slot *note_code_object(uint64_t code)
{
	struct books_code_slot *slot;
	uint32_t id;

	if (!take_codes())
		return NULL;
	slot = find_code_slot(code);
	if (slot || !(slot = find_code_room(code)))
		goto end;
	id = add_code_text(code);
	if (!id || !mark_code(code)) {
		slot = NULL;
		goto end;
	}
	slot->id = id;
	slot->first_traceable = first_traceable_of(code);
	__atomic_store_n(&slot->address, code, __ATOMIC_RELEASE);
end:
	leave_codes();
	return slot;
}

static struct books_gone *gone_place(uint32_t nr)
{
	return BOOKS_AS(struct books_gone, BOOKS_AT_GONE) + nr % BOOKS_GONE_NR;
}

#define OBJECT_SIZE_AT 16 /* ob_size of an object with a variable part (Include/object.h); of code: units of two bytes */

static struct books_gone instructions_of(uint64_t code)
{
	uint64_t from = code << INSTRUCTION_CODE_SHIFT;

	if (frames_are_objects())
		return (struct books_gone){ from, from + INSTRUCTION_UNTOLD };
	return (struct books_gone){ code, code + SETTINGS->offsets.code_instructions + 2 * word_at(code + OBJECT_SIZE_AT) + 2 };
}

/* Its memory is about to be freed: another one may come to its address. It waits for the lock no longer than for a copy. */
static __attribute__((noinline)) void retire_code(uint64_t code)
{
	bool has_lock = take_codes();
	struct books_code_slot *slot = find_code_slot(code);
	/* Without the lock another number may be given at the same time: then all is forgotten. */
	uint32_t nr = HEAD->gone_nr + (has_lock ? 1 : BOOKS_GONE_NR);

	if (slot)
		__atomic_store_n(&slot->address, BOOKS_CODE_GONE, __ATOMIC_RELEASE);
	*gone_place(nr) = instructions_of(code);
	__atomic_store_n(&HEAD->gone_nr, nr, __ATOMIC_RELEASE);
	if (has_lock)
		leave_codes();
}

static void forget_memo(struct books_thread *thread)
{
	for (int i = 0; i < (int)BOOKS_CHILDREN; i++)
		thread->child[i].instruction = 0;
	thread->frame_nr = 0;
}

static void forget_range(struct books_thread *thread, const struct books_gone *gone)
{
	uint64_t bytes = gone->to - gone->from;

	for (int i = 0; i < (int)BOOKS_CHILDREN; i++)
		if (thread->child[i].instruction - gone->from < bytes)
			thread->child[i].instruction = 0;
	for (uint32_t i = 1; i <= thread->frame_nr; i++)
		if (thread->frame[i].instruction - gone->from < bytes)
			thread->frame_nr = i - 1;
}

/* A thread forgets what it remembers of code that has gone. Nodes stay true: ids are given out once. */
static __attribute__((noinline)) void forget_gone_code(struct books_thread *thread, uint32_t now)
{
	uint32_t was = thread->gone_nr;

	for (uint32_t nr = was + 1; now - was < BOOKS_GONE_NR / 2 && nr != now + 1; nr++)
		forget_range(thread, gone_place(nr));
	/* Meanwhile so many may have gone that places were written anew. */
	if (__atomic_load_n(&HEAD->gone_nr, __ATOMIC_ACQUIRE) - was >= BOOKS_GONE_NR / 2)
		forget_memo(thread);
	thread->gone_nr = now;
}

/* ---- the trie ---- */

static inline bool is_generator(uint32_t owner)
{
	return owner == SETTINGS->offsets.owner_generator;
}

static inline bool is_shim(uint32_t owner)
{
	return owner >= SETTINGS->offsets.owner_shim;
}

static inline uint32_t frame_owner_of(uint64_t frame, bool is_object)
{
	return is_object ? 0 : *(const volatile uint8_t *)(frame + SETTINGS->offsets.frame_owner);
}

/* As in PYTHON_FRAME_WORD(). */
static int32_t instruction_number(uint64_t frame, uint64_t code, uint64_t instruction)
{
	if (frames_are_objects())
		return half_at(frame + SETTINGS->offsets.frame_instruction);
	return (int64_t)(instruction - code - SETTINGS->offsets.code_instructions) >> 1;
}

static bool can_be_remembered(uint64_t instruction)
{
	return !frames_are_objects() || (~instruction & INSTRUCTION_UNTOLD);
}

/*
 * The node of a frame whose caller has this node. A frame that has not begun is left out, as tracemalloc does. *ret_stays:
 * the answer holds as long as the code object is there.
 */
static __attribute__((noinline)) uint32_t child_slowly(uint32_t parent, uint64_t frame, uint64_t instruction, uint32_t owner,
						       bool *ret_stays)
{
	const struct python_offsets *offsets = &SETTINGS->offsets;
	uint64_t code = word_at(frame + offsets->frame_code) & offsets->code_mask;
	const struct books_code_slot *slot = find_code_slot(code) ?: note_code_object(code);
	int32_t at = instruction_number(frame, code, instruction), first;
	uint32_t node;

	*ret_stays = slot && can_be_remembered(instruction);
	first = slot ? slot->first_traceable : first_traceable_of(code);
	if (!is_generator(owner) && at < first)
		return parent;
	if (!slot)
		count_books_loss(BOOKS_LOST_CODES);
	node = find_or_add_node(parent, (uint64_t)(slot ? slot->id : PYTHON_CODE_UNKNOWN) << 32 | (uint32_t)at);
	*ret_stays &= node != BOOKS_NO_NODE;
	return node;
}

static inline uint32_t child_of(struct books_thread *thread, uint32_t parent, uint64_t frame, uint64_t instruction,
				bool is_object, bool *ret_stays)
{
	uint32_t owner = frame_owner_of(frame, is_object), node;
	uint64_t key = instruction | is_generator(owner); /* an address of instructions is even */
	struct books_child *child =
		&thread->child[((key ^ (uint64_t)parent << 33) * MULTIPLIER >> 32) % BOOKS_CHILDREN];

	*ret_stays = true;
	if (unlikely(is_shim(owner)) || unlikely(parent == BOOKS_NO_NODE))
		return parent;
	if (likely(child->instruction == key && child->parent == parent))
		return child->node;
	node = child_slowly(parent, frame, instruction, owner, ret_stays);
	if (node == parent)
		*ret_stays = false; /* it may begin while its instruction stays */
	else if (*ret_stays)
		*child = (struct books_child){ key, parent, node };
	return node;
}

/* ---- the walk ---- */

/* Whether a state is of the interpreter of now, and not left by one that has ended: its memory may be gone. */
static __attribute__((noinline)) bool is_of_key(uint64_t sequence)
{
	if (sequence > LOAD(SETTINGS->key_sequence))
		__atomic_store_n(&SETTINGS->key_sequence, sequence, __ATOMIC_RELAXED);
	return sequence >= LOAD(SETTINGS->key_sequence);
}

/* glibc adds 1 when a key is deleted, and when it is made: odd numbers are of keys in use (pthread_key_create()). */
static __attribute__((noinline)) uint64_t note_key_gone(void)
{
	__atomic_store_n(&SETTINGS->key_sequence, (LOAD(SETTINGS->key_sequence) + 1) & ~UINT64_C(1), __ATOMIC_RELAXED);
	return 0;
}

/* As pthread_getspecific() gives it to PyGILState_GetThisThreadState(). 0: none, or the interpreter has ended, or is ending. */
static inline uint64_t own_thread_state(void)
{
	uint64_t state, sequence, finalizing = word_at(SETTINGS->finalizing_at);

	if (unlikely(word_at(SETTINGS->key_at) != SETTINGS->key_is))
		return note_key_gone();
	__asm__ volatile("movq %%fs:(%2), %0\n\tmovq %%fs:-8(%2), %1" : "=&r"(state), "=&r"(sequence) : "r"(SETTINGS->state_at));
	if (unlikely(sequence != SETTINGS->key_sequence) && state && !is_of_key(sequence))
		return 0;
	return likely(!finalizing || finalizing == state) ? state : 0;
}

static inline uint64_t innermost_frame(uint64_t state)
{
	uint64_t frame = word_at(state + SETTINGS->offsets.tstate_frame);

	return frame && SETTINGS->offsets.cframe_frame != PYTHON_NO_OFFSET ?
		       word_at(frame + SETTINGS->offsets.cframe_frame) : frame;
}

static inline uint64_t frame_instruction(uint64_t frame, bool is_object)
{
	uint32_t number;

	if (!is_object)
		return word_at(frame + SETTINGS->offsets.frame_instruction);
	number = half_at(frame + SETTINGS->offsets.frame_instruction) + 1;
	return word_at(frame + SETTINGS->offsets.frame_code) << INSTRUCTION_CODE_SHIFT |
	       (number < INSTRUCTION_UNTOLD ? number : INSTRUCTION_UNTOLD);
}

static inline uint64_t frame_back(uint64_t frame)
{
	return word_at(frame + SETTINGS->offsets.frame_back);
}

static inline uint16_t *memo_place_of(struct books_thread *thread, uint64_t frame)
{
	return &thread->place[(frame >> 4 ^ frame >> 14) % BOOKS_PLACES];
}

/*
 * frame[at] of the memo is a frame of now. Returns 0 if it and all frames further out are as they were; otherwise
 * frame[result … at] are, and the one before them is not.
 */
static inline uint32_t first_other(const struct books_thread *thread, uint32_t at, bool is_object)
{
	for (uint32_t i = at; i >= 1; i--) {
		const struct books_frame *known = &thread->frame[i];

		if ((frame_instruction(known->frame, is_object) ^ known->instruction) |
		    (frame_back(known->frame) ^ known[-1].frame))
			return i + 1;
	}
	return 0;
}

/* The place of a frame in the memo, where `expected` is likely; 0: it is not there. */
static inline uint32_t find_known(struct books_thread *thread, uint64_t frame, uint32_t expected)
{
	uint32_t at = expected;

	if (at >= 1 && at <= thread->frame_nr && thread->frame[at].frame == frame)
		return at;
	at = *memo_place_of(thread, frame);
	return at >= 1 && at <= thread->frame_nr && thread->frame[at].frame == frame ? at : 0;
}

/* Whether there is room for more. */
static inline bool push_pending_frame(struct books_thread *thread, uint32_t *nr, uint64_t frame, uint64_t instruction)
{
	if (*nr == BOOKS_DEEPEST)
		return false;
	thread->pending[*nr].frame = frame;
	thread->pending[(*nr)++].instruction = instruction;
	return true;
}

/*
 * Collects frames in thread->pending, from this one outwards, until one is known with all that are further out. Returns its
 * place in the memo; 0: the outermost one is among them, or they are too many: then *ret_deep.
 */
static uint32_t collect_frames(struct books_thread *thread, uint64_t frame, bool is_object, uint32_t *ret_nr, bool *ret_deep)
{
	uint32_t expected = thread->frame_nr;
	bool has_room = true;

	*ret_nr = 0;
	while (frame && has_room) {
		uint32_t at = find_known(thread, frame, expected), other = at ? first_other(thread, at, is_object) : 1;

		if (!other)
			return at;
		for (; at && at >= other && has_room; at--) { /* these are as they were, but one further out is not */
			has_room = push_pending_frame(thread, ret_nr, thread->frame[at].frame, thread->frame[at].instruction);
			frame = thread->frame[at - 1].frame;
		}
		expected = at ? at - 1 : expected;
		if (!has_room)
			break;
		thread->steps++;
		has_room = push_pending_frame(thread, ret_nr, frame, frame_instruction(frame, is_object));
		frame = frame_back(frame);
	}
	*ret_deep = !has_room;
	return 0;
}

/* Too many frames for the memo. The outer ones may be missing. */
static uint32_t walk_deeply(struct books_thread *thread, uint32_t node, uint32_t nr, bool is_object, bool is_cut)
{
	bool ignored;

	if (is_cut)
		count_books_loss(BOOKS_DEEP);
	thread->frame_nr = 0;
	while (nr--)
		node = child_of(thread, node, thread->pending[nr].frame, thread->pending[nr].instruction, is_object,
				&ignored);
	return node;
}

static __attribute__((noinline)) uint32_t walk_slowly(struct books_thread *thread, uint64_t frame, bool is_object)
{
	bool is_deep = false, stays;
	uint32_t nr, at = collect_frames(thread, frame, is_object, &nr, &is_deep), node = thread->frame[at].node; /* the root's is 0 */

	if (is_deep || at + nr > BOOKS_DEEPEST)
		return walk_deeply(thread, node, nr, is_object, is_deep);
	while (nr--) {
		frame = thread->pending[nr].frame;
		node = child_of(thread, node, frame, thread->pending[nr].instruction, is_object, &stays);
		thread->frame[++at] = (struct books_frame){
			frame, stays ? thread->pending[nr].instruction : 1 /* none is that: looked at again */, node,
		};
		*memo_place_of(thread, frame) = at;
	}
	thread->frame_nr = at;
	return node;
}

/* The innermost frame of the memo is at another instruction, and all others are as they were. */
static inline uint32_t step_on(struct books_thread *thread, struct books_frame *top, bool is_object)
{
	uint64_t instruction = frame_instruction(top->frame, is_object);
	bool stays;

	thread->steps++;
	top->node = child_of(thread, top[-1].node, top->frame, instruction, is_object, &stays);
	top->instruction = stays ? instruction : 1;
	return top->node;
}

/* is_object: frames_are_objects(), so that each kind has code of its own. */
static inline __attribute__((always_inline)) uint32_t walk_by_memo(struct books_thread *thread, bool is_object)
{
	uint64_t state = own_thread_state(), frame = likely(state) ? innermost_frame(state) : 0;
	struct books_frame *top;
	uint32_t gone_nr;

	if (unlikely(!frame))
		return 0;
	gone_nr = __atomic_load_n(&HEAD->gone_nr, __ATOMIC_ACQUIRE);
	if (unlikely(gone_nr != thread->gone_nr))
		forget_gone_code(thread, gone_nr);
	top = &thread->frame[thread->frame_nr];
	if (!thread->frame_nr || top->frame != frame || frame_back(frame) != top[-1].frame ||
	    first_other(thread, thread->frame_nr - 1, is_object))
		return walk_slowly(thread, frame, is_object);
	return frame_instruction(frame, is_object) == top->instruction ? top->node : step_on(thread, top, is_object);
}

static __attribute__((noinline)) uint32_t walk_over_objects(struct books_thread *thread)
{
	return walk_by_memo(thread, true);
}

static inline uint32_t walk_either(struct books_thread *thread)
{
	return unlikely(frames_are_objects()) ? walk_over_objects(thread) : walk_by_memo(thread, false);
}

#ifdef PYTHON_HOOKS_COMPARE
/* The same by CPython's own words alone. */
static uint32_t walk_plainly(struct books_thread *thread, uint64_t frame)
{
	uint32_t node = 0, nr = 0;

	for (; frame && nr < BOOKS_DEEPEST; frame = frame_back(frame))
		thread->pending[nr++].frame = frame;
	while (nr--) {
		uint64_t at = thread->pending[nr].frame;
		uint32_t owner = frame_owner_of(at, frames_are_objects());
		bool ignored;

		if (!is_shim(owner))
			node = child_slowly(node, at, frame_instruction(at, frames_are_objects()), owner, &ignored);
	}
	return node;
}

static uint32_t walk(struct books_thread *thread)
{
	uint32_t node = walk_either(thread);
	uint64_t state = own_thread_state(), frame = state ? innermost_frame(state) : 0;

	__atomic_fetch_add(&HEAD->compared, 1, __ATOMIC_RELAXED);
	if (frame && walk_plainly(thread, frame) != node)
		__atomic_fetch_add(&HEAD->differ, 1, __ATOMIC_RELAXED);
	return node;
}
#else
#define walk walk_either
#endif

#endif
