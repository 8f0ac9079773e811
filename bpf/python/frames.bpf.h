/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_FRAMES_BPF_H
#define ALLOCSNAP_PYTHON_FRAMES_BPF_H

/*
 * The traceback of a thread in CPython: the frames of its interpreter, as tracemalloc sees them. A frame is one word:
 * the id of its code object, and the instruction (PYTHON_FRAME_WORD()). The loader makes file and line of it.
 *
 * A code object gets an id at first sight, and is told at that time: the frame refers to it, and its thread stands still
 * in the probe, so nothing of it can have been freed. Its id ends when its memory is freed (python_calls.bpf.h), because
 * then another code object may get the address.
 */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "account/admit.bpf.h"
#include "maps.bpf.h"
#include "unwind/unwind.bpf.h"

extern __u32 python_code_ids; /* given out so far */

/* Entries of python_codes, and the most that one process may have: the loader sets it by what is free. */
extern __u64 python_codes_held, python_codes_most;

static __always_inline __u64 read_word(__u64 address)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

static __always_inline __u32 read_half(__u64 address)
{
	__u32 half = 0;

	bpf_probe_read_user(&half, sizeof(half), (void *)address);
	return half;
}

/* NULL: its CPython is not known, or not known yet. */
static __always_inline struct python_process *python_of(const struct process *process)
{
	__u64 memory = process->memory;

	return bpf_map_lookup_elem(&python_processes, &memory);
}

/* ---- code objects ---- */

/* Copies the characters if they fit. */
static __always_inline void text_copy(struct python_text *text, void *to, __u32 room)
{
	__u64 bytes = text->bytes;

	text->is_read = bytes <= room && !bpf_probe_read_user(to, bytes & (2 * (__u64)room - 1), (void *)text->address);
}

static __always_inline void string_copy(const struct python_offsets *offsets, __u64 object, struct python_text *text,
					void *to, __u32 room)
{
	__u32 state = read_half(object + offsets->string_state);

	text->state = state;
	text->bytes = read_word(object + offsets->string_length) * PYTHON_STRING_BYTES(state);
	text->address = object + (PYTHON_STRING_IS_ASCII(state) ? offsets->string_ascii : offsets->string_compact);
	text_copy(text, to, room);
}

static __always_inline void code_copy(const struct python_offsets *offsets, const struct python_code_key *key, __u32 id,
				      struct python_code_record *record, __u32 lines_room)
{
	__u64 lines = read_word(key->address + offsets->code_lines);

	record->memory = key->memory;
	record->address = key->address;
	record->id = id;
	record->pid = bpf_get_current_pid_tgid() >> 32;
	record->first_line = read_half(key->address + offsets->code_first_line);
	record->pad = 0;
	string_copy(offsets, read_word(key->address + offsets->code_filename), &record->file, record->file_bytes,
		    PYTHON_FILE_BYTES);
	string_copy(offsets, read_word(key->address + offsets->code_name), &record->name, record->name_bytes,
		    PYTHON_NAME_BYTES);
	record->lines.address = lines + offsets->bytes_data;
	record->lines.bytes = read_word(lines + offsets->bytes_length);
	record->lines.state = 0;
	text_copy(&record->lines, record->line_bytes, lines_room);
}

#define RECORD_OF(lines_room) (sizeof(struct python_code_record) + (lines_room))

#define CODE_TELL(lines_room) do { \
	record = bpf_ringbuf_reserve(&python_code_records, RECORD_OF(lines_room), 0); \
	if (!record) \
		return -ENOSPC; \
	code_copy(&python->offsets, &key, id, record, lines_room); \
	bpf_ringbuf_submit(record, 0); \
} while (0)

/* Tells the loader of a code object. 0, or an error: no room. A global function, so that the verifier checks it once. */
__weak __noinline int code_tell(__u64 address, __u64 memory, __u32 id)
{
	const struct python_code_key key = { address, memory };
	struct python_process *python = bpf_map_lookup_elem(&python_processes, &key.memory);
	struct python_code_record *record;
	__u64 bytes;

	if (!python)
		return -ENOENT;
	bytes = read_word(read_word(address + python->offsets.code_lines) + python->offsets.bytes_length);
	if (bytes <= PYTHON_LINES_SMALL)
		CODE_TELL(PYTHON_LINES_SMALL);
	else if (bytes <= PYTHON_LINES_MIDDLE)
		CODE_TELL(PYTHON_LINES_MIDDLE);
	else
		CODE_TELL(PYTHON_LINES_LARGE);
	return 0;
}

/* Tells of the code object and notes its number. 0, or an error: no room, or the process has its share. */
static __always_inline long code_note(const struct python_code_key *key, struct python_process *python,
				      const struct python_code_known *new, bool is_there)
{
	int err;

	if (!is_there && python->code_nr >= *(volatile __u64 *)&python_codes_most)
		return -ENOSPC;
	err = code_tell(key->address, key->memory, new->id);
	err = err ?: bpf_map_update_elem(&python_codes, key, new, BPF_ANY);
	if (err || is_there)
		return err;
	__sync_fetch_and_add(&python->code_nr, 1);
	__sync_fetch_and_add(&python_codes_held, 1);
	return 0;
}

#define ADDRESS_MULTIPLIER 0x9e3779b97f4a7c15ULL

/*
 * Marks say which addresses may be those of known code objects, of any process: freed memory is none, mostly. A bit
 * stays until the end of the recording.
 */
static __always_inline __u64 *code_mark(__u64 address, __u64 *ret_bit)
{
	__u64 hash = address * ADDRESS_MULTIPLIER;
	__u32 word = hash >> (64 - PYTHON_MARKS_SHIFT);

	*ret_bit = 1ULL << (hash >> (64 - PYTHON_MARKS_SHIFT - 6) & 63);
	return bpf_map_lookup_elem(&python_code_marks, &word);
}

static __always_inline bool code_may_be_known(__u64 address)
{
	__u64 bit, *mark = code_mark(address, &bit);

	return !mark || *(volatile __u64 *)mark & bit;
}

/* The frames of code from before a gap, and of other processes, have other keys. */
static __always_inline __u64 code_salt(const struct process *process)
{
	return mix(mix(settings.hash_seed ^ process->memory) ^ resumed_ns(process));
}

static __always_inline __u64 code_cache_key(__u64 salt, __u64 address)
{
	return (salt ^ address) * ADDRESS_MULTIPLIER;
}

static __always_inline struct python_code_cached *code_cached(__u64 key)
{
	__u32 at = key >> (64 - PYTHON_CACHE_SHIFT);

	return bpf_map_lookup_elem(&python_code_cache, &at);
}

static __noinline int code_set_mark(__u64 address)
{
	__u64 bit, *mark = code_mark(address, &bit);

	if (mark)
		__sync_fetch_and_or(mark, bit);
	return 0;
}

/* Looks into the map, and tells the loader of a code object that is not there. Returns id << 32 | first_traceable. */
static __noinline __u64 code_find_or_tell(struct process *process, struct python_process *python, __u64 address)
{
	struct python_code_key key = { address, process->memory };
	const struct python_code_known *known = bpf_map_lookup_elem(&python_codes, &key);
	struct python_code_known new = { PYTHON_CODE_UNKNOWN, 0, resumed_ns(process) };

	if (known && known->resumed_ns == new.resumed_ns)
		return (__u64)known->id << 32 | (__u32)known->first_traceable;
	code_set_mark(address);
	if (python->offsets.code_first_traceable != PYTHON_NO_OFFSET)
		bpf_probe_read_user(&new.first_traceable, sizeof(new.first_traceable),
				    (void *)(address + python->offsets.code_first_traceable));
	new.id = (__sync_fetch_and_add(&python_code_ids, 1) + 1) & 0x7fffffff;
	if (code_note(&key, python, &new, known))
		new.id = PYTHON_CODE_UNKNOWN;
	return (__u64)new.id << 32 | (__u32)new.first_traceable;
}

/* As code_find_or_tell(), with the cache. An entry that two programs write at once fits no key. */
static __always_inline __u64 code_find(struct process *process, struct python_process *python, __u64 salt, __u64 address)
{
	__u64 key = code_cache_key(salt, address), known;
	struct python_code_cached *cached = code_cached(key);

	if (cached) {
		known = *(volatile __u64 *)&cached->known;
		if ((*(volatile __u64 *)&cached->check ^ known) == key)
			return known;
	}
	known = code_find_or_tell(process, python, address);
	if (cached && known >> 32 != PYTHON_CODE_UNKNOWN) {
		cached->known = known;
		cached->check = key ^ known;
	}
	return known;
}

/* Its memory is about to be freed. */
static __always_inline void code_retire(const struct process *process, __u64 address)
{
	struct python_code_key key = { address, process->memory };
	struct python_code_cached *cached;
	struct python_process *python;
	int err;

	if (!code_may_be_known(address))
		return;
	cached = code_cached(code_cache_key(code_salt(process), address));
	if (cached)
		cached->check = 0;
	err = bpf_map_delete_elem(&python_codes, &key);
	if (err)
		return;
	__sync_fetch_and_sub(&python_codes_held, 1);
	python = bpf_map_lookup_elem(&python_processes, &key.memory);
	if (python)
		__sync_fetch_and_sub(&python->code_nr, 1);
}

/* ---- the walk ---- */

#define SPECIFIC_FIRST 0x310 /* of glibc's struct pthread: pairs of words, of which the second is the value */
#define SPECIFIC_NR 32

/* The thread state, as pthread_getspecific() gives it to PyGILState_GetThisThreadState(). 0: the thread has none. */
static __always_inline __u64 python_thread_state(const struct python_process *python)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 key = read_half(python->tss_key);

	return key < SPECIFIC_NR ? read_word(task->thread.fsbase + SPECIFIC_FIRST + 16 * (__u64)key + 8) : 0;
}

struct python_walk {
	struct walk *walk;
	struct process *process;
	struct python_process *python;
	__u64 frame; /* the next one */
};

#define FRAME_BYTES 128
#define FRAMES_MOST 65535 /* that are counted, as in tracemalloc */

/* The window has no frames yet. */
static __always_inline void python_walk_begin(struct walk *walk, const struct process *process, __u64 end)
{
	walk->window_words = 0;
	walk->frames = (struct python_window){ .end = end, .salt = code_salt(process) };
}

/*
 * Reads a frame into the window. A function's frame lies a little above that of its caller if neither is a generator's
 * (3.11 on): then what lies below it in its page is read, too, which costs little more.
 */
static __noinline int frames_read(struct walk *walk, __u64 frame, __u64 bytes, __u64 last)
{
	__u64 below = frame & (PAGE_BYTES - 1);

	if (bytes > FRAME_BYTES || (last && last - frame >= WINDOW_BYTES))
		below = 0;
	if (below > WINDOW_BYTES - FRAME_BYTES)
		below = WINDOW_BYTES - FRAME_BYTES;
	bytes += below;
	barrier_var(bytes);
	walk->window_words = 0;
	if (bytes > WINDOW_BYTES || bpf_probe_read_user(walk->window, bytes, (void *)(frame - below)))
		return -1;
	walk->window_start = frame - below;
	walk->window_words = bytes / 8;
	return 0;
}

/* Brings a frame into the window. */
static __always_inline bool python_frame_read(struct python_walk *walk, __u64 frame)
{
	__u64 bytes = walk->python->offsets.frame_bytes, at = frame - walk->walk->window_start;

	if (at >= WINDOW_BYTES || at + bytes > 8 * walk->walk->window_words) {
		if (frame & 7 || frames_read(walk->walk, frame, bytes, walk->walk->frames.last))
			return false;
		at = frame - walk->walk->window_start;
	}
	walk->walk->frames.last = frame;
	walk->walk->frames.at = at;
	return !(frame & 7);
}

/* A word of the frame that was read last. */
static __always_inline __u64 frame_word(const struct python_walk *walk, __u32 offset)
{
	return *(const __u64 *)((const char *)walk->walk->window + ((walk->walk->frames.at + offset) & (WINDOW_BYTES - 8)));
}

/* 0 where frames are objects. */
static __always_inline __u32 frame_owner(const struct python_walk *walk)
{
	__u32 offset = walk->python->offsets.frame_owner;

	return offset == PYTHON_NO_OFFSET ?
		       0 : *((const unsigned char *)walk->walk->window + ((walk->walk->frames.at + offset) & (WINDOW_BYTES - 1)));
}

static __always_inline void frame_add(struct traceback *traceback, __u64 word)
{
	__u32 nr = traceback->total_nframe++;

	if (nr < settings.traceback_limit && nr < TRACEBACK_LIMIT_MAX)
		traceback->pc[nr] = word;
}

/* Adds the frame in the window, unless tracemalloc would not see it. */
static __always_inline void frame_take(struct python_walk *walk)
{
	const struct python_offsets *offsets = &walk->python->offsets;
	__u64 code = frame_word(walk, offsets->frame_code) & offsets->code_mask;
	__u64 instruction = frame_word(walk, offsets->frame_instruction), known;
	__u32 owner = frame_owner(walk);
	__s64 at = (__s32)instruction;

	if (owner >= offsets->owner_shim)
		return;
	known = code_find(walk->process, walk->python, walk->walk->frames.salt, code);
	if (offsets->instruction_kind == PYTHON_POINTER) {
		at = (__s64)(instruction - code - offsets->code_instructions) >> 1;
		if (owner != offsets->owner_generator && at < (__s32)known)
			return; /* it is not complete */
	}
	if (known >> 32 == PYTHON_CODE_UNKNOWN)
		__sync_fetch_and_add(&walk->process->loss[LOSS_python_codes_missing], 1);
	frame_add(&walk->walk->traceback, PYTHON_FRAME_WORD(known >> 32, at));
}

static long python_walk_step(__u32 nr, void *data)
{
	struct python_walk *walk = data;

	if (!walk->frame || walk->frame == walk->walk->frames.end)
		return 1;
	if (!python_frame_read(walk, walk->frame)) {
		__sync_fetch_and_add(&walk->process->loss[LOSS_python_frames_broken], 1);
		return 1;
	}
	walk->frame = frame_word(walk, walk->python->offsets.frame_back);
	frame_take(walk);
	return 0;
}

/* The innermost frame of a thread, or 0. */
static __always_inline __u64 frame_first(const struct python_process *python, __u64 state)
{
	__u64 frame;

	if (!state)
		return 0;
	frame = read_word(state + python->offsets.tstate_frame);
	return frame && python->offsets.cframe_frame != PYTHON_NO_OFFSET ?
		       read_word(frame + python->offsets.cframe_frame) : frame;
}

/* Fills walk->traceback with the thread's Python frames. A global function, so that the verifier checks it once. */
__weak __noinline int python_traceback_take(struct walk *walk, struct process *process)
{
	struct python_walk steps = { .walk = walk, .process = process };
	struct traceback *traceback;

	if (!walk || !process)
		return 0;
	traceback = &walk->traceback;
	traceback->end = UNWIND_ROOT;
	traceback->by_tables = true;
	traceback->guessed[0] = traceback->guessed[1] = traceback->exact[0] = traceback->exact[1] = 0;
	traceback->total_nframe = 0;
	steps.python = python_of(process);
	if (steps.python) {
		python_walk_begin(walk, process, 0);
		steps.frame = frame_first(steps.python, python_thread_state(steps.python));
		bpf_loop(FRAMES_MOST, python_walk_step, &steps, 0);
	}
	if (!traceback->total_nframe) /* a thread without Python code: tracemalloc has one unknown frame */
		frame_add(traceback, PYTHON_FRAME_WORD(PYTHON_CODE_UNKNOWN, 0));
	traceback->nframe = traceback->total_nframe < settings.traceback_limit ?
				    traceback->total_nframe : settings.traceback_limit;
	return 0;
}

#endif
