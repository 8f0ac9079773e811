/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_FRAMES_BPF_H
#define ALLOCSNAP_PYTHON_FRAMES_BPF_H

/*
 * The traceback of a thread in CPython: the frames of its interpreter, as tracemalloc sees them. A frame is one word:
 * the id of its code object, and the instruction (PYTHON_FRAME_WORD()). The loader makes file and line of it.
 *
 * A code object gets an id at first sight, and the loader gets its record at that time: the frame refers to it, and its
 * thread stands still in the probe, so nothing of it can have been freed. Its id ends when its memory is freed
 * (python_calls.bpf.h), because then another code object may get the address.
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

/* Whether process->python describes the process's memory: no CPython may be known there, or none yet. */
static __always_inline bool knows_python(const struct process *process)
{
	return *(const volatile __u64 *)&process->python.memory == process->memory;
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

/* Reports a code object to the loader. 0, or an error: no room. A global function: the verifier checks it once. */
__weak __noinline int code_tell(struct python_process *python, __u64 address, __u32 id)
{
	struct python_code_record *record;
	struct python_code_key key;
	__u64 bytes;

	if (!python)
		return -ENOENT;
	key = (struct python_code_key){ address, python->memory };
	bytes = read_word(read_word(address + python->offsets.code_lines) + python->offsets.bytes_length);
	if (bytes <= PYTHON_LINES_SMALL)
		CODE_TELL(PYTHON_LINES_SMALL);
	else if (bytes <= PYTHON_LINES_MIDDLE)
		CODE_TELL(PYTHON_LINES_MIDDLE);
	else
		CODE_TELL(PYTHON_LINES_LARGE);
	return 0;
}

/* Reports the code object to the loader and notes its id. 0, or an error: no room, or the process has its share. */
static __always_inline long code_note(const struct python_code_key *key, struct python_process *python,
				      const struct python_code_known *new, bool is_there)
{
	int err;

	if (!is_there && python->code_nr >= *(volatile __u64 *)&python_codes_most)
		return -ENOSPC;
	err = code_tell(python, key->address, new->id);
	err = err ?: bpf_map_update_elem(&python_codes, key, new, BPF_ANY);
	if (err || is_there)
		return err;
	__sync_fetch_and_add(&python->code_nr, 1);
	__sync_fetch_and_add(&python_codes_held, 1);
	return 0;
}

#define ADDRESS_MULTIPLIER 0x9e3779b97f4a7c15ULL

/*
 * Marks say at which addresses known code objects of any process may lie: most memory that is freed is no code object.
 * A bit stays until the end of the recording.
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

/* Looks into the map, and reports a code object that is not there to the loader. Returns id << 32 | first_traceable. */
static __always_inline __u64 code_find_or_tell(struct process *process, __u64 address)
{
	struct python_process *python = &process->python;
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
static __noinline __u64 code_find_cached(struct process *process, __u64 key, __u64 address)
{
	struct python_code_cached *cached = code_cached(key);
	__u64 known;

	if (cached) {
		known = *(volatile __u64 *)&cached->known;
		if ((*(volatile __u64 *)&cached->check ^ known) == key)
			return known;
	}
	known = code_find_or_tell(process, address);
	if (cached && known >> 32 != PYTHON_CODE_UNKNOWN) {
		cached->known = known;
		cached->check = key ^ known;
	}
	return known;
}

/*
 * Returns id << 32 | first_traceable. The code objects that the thread has met last are in its own state, which is nearer
 * than the cache. Entries from before a code object ended do not count.
 */
static __always_inline __u64 code_find(struct process *process, struct walk *walk, __u64 address)
{
	__u64 key = code_cache_key(walk->frames.salt, address), check = key ^ walk->frames.ended_nr, known;
	struct python_code_cached *met = &walk->met[key >> (64 - PYTHON_MET_SHIFT)];

	if (met->check == check)
		return met->known;
	known = code_find_cached(process, key, address);
	if (known >> 32 != PYTHON_CODE_UNKNOWN)
		*met = (struct python_code_cached){ check, known };
	return known;
}

/* Its memory is about to be freed. */
static __always_inline void code_retire(struct process *process, __u64 address)
{
	struct python_code_key key = { address, process->memory };
	struct python_code_cached *cached;
	int err;

	if (!code_may_be_known(address))
		return;
	cached = code_cached(code_cache_key(code_salt(process), address));
	if (cached)
		cached->check = 0;
	/* A thread may remember it even if the map has it no more. */
	__sync_fetch_and_add(&process->python.code_ended_nr, 1);
	err = bpf_map_delete_elem(&python_codes, &key);
	if (err)
		return;
	__sync_fetch_and_sub(&python_codes_held, 1);
	__sync_fetch_and_sub(&process->python.code_nr, 1);
}

/* ---- the walk ---- */

/* As pthread_getspecific() gives it to PyGILState_GetThisThreadState(). */
static __always_inline __u64 thread_state_read(const struct python_process *python)
{
	__u64 thread = task_thread_pointer(bpf_get_current_task_btf()), table = thread + GLIBC_SPECIFIC_FIRST;
	__u32 key = read_half(python->tss_key);

	if (key >= GLIBC_KEYS_MAX)
		return 0;
	if (key >= GLIBC_KEYS_OF_TABLE)
		table = read_word(GLIBC_SPECIFIC_TABLE(thread, key));
	return table ? read_word(GLIBC_SPECIFIC_VALUE(table, key)) : 0;
}

#define STATE_NONE 1 /* struct walk: it is known that the thread has none */

/* The thread state, which is read once at each place. 0: the thread has none. */
static __always_inline __u64 python_thread_state(struct walk *walk, const struct python_process *python)
{
	if (!walk->thread_state)
		walk->thread_state = thread_state_read(python) ?: STATE_NONE;
	return walk->thread_state & ~(__u64)STATE_NONE;
}

/*
 * Counts a traceback without frames if the thread holds the GIL, but its state was not found. It has one from when the key
 * is made until it is deleted. Until 3.11 the key has the first state of a thread, even while another interpreter runs:
 * the state that holds the GIL is three words before the key.
 */
static __always_inline void count_stateless(struct process *process, const struct walk *walk, __u64 state)
{
	const struct python_process *python = &process->python;
	bool is_other = state && !python->in_interpreter && read_word(python->tss_key - 20) != state;

	if (walk->has_gil && (!state || is_other) && read_half(python->tss_key - 4))
		__sync_fetch_and_add(&process->loss[LOSS_python_states_missing], 1);
}

struct python_walk {
	struct walk *walk;
	struct process *process;
	__u64 frame; /* the next one */
};

#define FRAME_BYTES 128
#define FRAMES_MOST 65535 /* that are counted, as in tracemalloc */

/* The window has no frames yet. */
static __always_inline void python_walk_begin(struct walk *walk, const struct process *process, __u64 end)
{
	walk->frames = (struct python_window){
		.end = end, .salt = code_salt(process), .ended_nr = process->python.code_ended_nr,
	};
}

/*
 * Reads a frame into the window. A function's frame lies a little above its caller's frame if neither is a generator's
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
	walk->frames.room = 0;
	if (bytes > WINDOW_BYTES || bpf_probe_read_user(walk->window, bytes, (void *)(frame - below)))
		return -1;
	walk->window_start = frame - below;
	walk->frames.room = below + 1;
	return 0;
}

/* The frame in the window; brought there if it is not. NULL: it cannot be read, or its address is 0. */
static __always_inline const char *frame_find(struct walk *walk, const struct python_offsets *offsets, __u64 frame)
{
	__u64 at = frame - walk->window_start;

	if (at >= walk->frames.room || at & 7) {
		if (!frame || frame & 7 || frames_read(walk, frame, offsets->frame_bytes, walk->frames.last))
			return NULL;
		at = frame - walk->window_start;
	}
	walk->frames.last = frame;
	return (const char *)walk->window + (at & (WINDOW_BYTES - 8));
}

/* Words begin at multiples of their size, and a frame's lie in its first FRAME_BYTES. */
static __always_inline __u64 frame_word(const char *frame, __u32 offset)
{
	return *(const __u64 *)(frame + (offset & (FRAME_BYTES - 8)));
}

/* 0 where frames are objects. */
static __always_inline __u32 frame_owner(const char *frame, __u32 offset)
{
	return offset == PYTHON_NO_OFFSET ? 0 : *(const unsigned char *)(frame + (offset & (FRAME_BYTES - 1)));
}

static __always_inline void frame_add(struct traceback *traceback, __u64 word)
{
	__u32 nr = traceback->total_nframe++;

	if (nr < settings.traceback_limit && nr < TRACEBACK_LIMIT_MAX)
		traceback->pc[nr] = word;
}

/* Adds the frame, unless tracemalloc would not see it. */
static __always_inline void frame_take(struct walk *walk, struct process *process, const char *frame)
{
	const struct python_offsets *offsets = &process->python.offsets;
	__u64 code = frame_word(frame, offsets->frame_code) & offsets->code_mask;
	__u64 instruction = frame_word(frame, offsets->frame_instruction), known;
	__u32 owner = frame_owner(frame, offsets->frame_owner);
	__s64 at = (__s32)instruction;

	if (owner >= offsets->owner_shim)
		return;
	known = code_find(process, walk, code);
	if (offsets->instruction_kind == PYTHON_POINTER) {
		at = (__s64)(instruction - code - offsets->code_instructions) >> 1;
		if (owner != offsets->owner_generator && at < (__s32)known)
			return; /* it is not complete */
	}
	if (known >> 32 == PYTHON_CODE_UNKNOWN)
		__sync_fetch_and_add(&process->loss[LOSS_python_codes_missing], 1);
	frame_add(&walk->traceback, PYTHON_FRAME_WORD(known >> 32, at));
}

#define FRAMES_AT_ONCE 8

/* Adds some frames: a call of this function costs as much as one of them. Returns whether these were the last ones. */
static long python_walk_step(__u32 nr, void *data)
{
	struct python_walk *steps = data;
	struct process *process = steps->process;
	struct walk *walk = steps->walk;
	__u64 next = steps->frame;
	const char *frame;

#pragma GCC unroll 8
	for (int i = 0; i < FRAMES_AT_ONCE; i++) {
		if (next == walk->frames.end)
			goto ends;
		frame = frame_find(walk, &process->python.offsets, next);
		if (!frame)
			goto breaks;
		next = frame_word(frame, process->python.offsets.frame_back);
		frame_take(walk, process, frame);
	}
	steps->frame = next;
	return 0;
breaks:
	if (next)
		__sync_fetch_and_add(&process->loss[LOSS_python_frames_broken], 1);
ends:
	steps->frame = next;
	return 1;
}

/* Adds frames until there are no more, or about `most`. Returns how many were looked at. */
static __always_inline __u32 frames_walk(struct python_walk *steps, __u64 end, __u32 most)
{
	struct traceback *traceback = &steps->walk->traceback;
	__u32 rounds;

	python_walk_begin(steps->walk, steps->process, end);
	rounds = bpf_loop((most + FRAMES_AT_ONCE - 1) / FRAMES_AT_ONCE, python_walk_step, steps, 0);
	if (traceback->total_nframe > FRAMES_MOST)
		traceback->total_nframe = FRAMES_MOST;
	return rounds * FRAMES_AT_ONCE;
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
	__u64 state;

	if (!walk || !process)
		return 0;
	traceback = &walk->traceback;
	traceback->end = UNWIND_ROOT;
	traceback->by_tables = true;
	traceback->guessed[0] = traceback->guessed[1] = traceback->exact[0] = traceback->exact[1] = 0;
	traceback->total_nframe = 0;
	if (knows_python(process)) {
		state = python_thread_state(walk, &process->python);
		steps.frame = frame_first(&process->python, state);
		if (!steps.frame)
			count_stateless(process, walk, state);
		frames_walk(&steps, 0, FRAMES_MOST);
	}
	if (!traceback->total_nframe) /* a thread without Python code: tracemalloc has one unknown frame */
		frame_add(traceback, PYTHON_FRAME_WORD(PYTHON_CODE_UNKNOWN, 0));
	traceback->nframe = traceback->total_nframe < settings.traceback_limit ?
				    traceback->total_nframe : settings.traceback_limit;
	return 0;
}

/*
 * Tracebacks with frames of both: the frames of C code, and in the place of each C frame that runs the interpreter the
 * frames of the Python code that it runs. These may be several, because a call from Python to Python needs no C frame.
 *
 *	C code                                Python code
 *	PyList_New
 *	_PyEval_EvalFrameDefault ◄─ entry ──  parse_item, parse_list	one run
 *	_PyFunction_Vectorcall
 *	scanner_call (_json.so)
 *	_PyEval_EvalFrameDefault ◄─ entry ──  load, main		the next run
 *
 * Each call of the interpreter has something on its own C frame that the frames of Python code lead to: its entry. It
 * shows which C frame that is, whatever the function is called and however a compiler has divided it.
 *
 *	3.12 on: an interpreter's frame of which C code is the owner (owner_shim), behind the last frame of the run
 *	3.11: a struct _PyCFrame, which has the first frame of its run, and leads to the next struct
 *	until 3.10: nothing
 */

/* A run is looked for before it is put into the traceback. So a circle of frames ends, and the sum fits into 16 bits. */
#define MIXED_FRAMES_MOST (FRAMES_MOST - STEPS_MAX)

static __always_inline bool has_cframes(const struct python_offsets *offsets)
{
	return offsets->cframe_back != PYTHON_NO_OFFSET;
}

/* As read_word(). Needs no stack of its own, of which the deepest chain of calls has none left. */
static __always_inline __u64 run_word(struct python_walk *walk, __u64 address)
{
	walk->frame = 0;
	bpf_probe_read_user(&walk->frame, sizeof(walk->frame), (void *)address);
	return walk->frame;
}

/* walk->frame is the frame that may be behind the run. */
static long run_end_step(__u32 nr, void *data)
{
	struct python_walk *walk = data;
	const struct python_offsets *offsets = &walk->process->python.offsets;
	const char *frame = frame_find(walk->walk, offsets, walk->frame);

	if (!frame) {
		walk->frame = 0;
		return 1;
	}
	if (frame_owner(frame, offsets->frame_owner) >= offsets->owner_shim)
		return 1;
	walk->frame = frame_word(frame, offsets->frame_back);
	return 0;
}

/* Finds where the run ends that begins with run->frame, and its entry. */
static __always_inline void run_find(struct python_walk *walk, struct python_run *run)
{
	const struct python_offsets *offsets = &walk->process->python.offsets;

	if (has_cframes(offsets)) {
		run->entry = run->link;
		run->link = run->entry ? run_word(walk, run->entry + offsets->cframe_back) : 0;
		run->end = run->link ? run_word(walk, run->link + offsets->cframe_frame) : 0;
		return;
	}
	walk->frame = run->frame;
	run->left -= bpf_loop(run->left, run_end_step, walk, 0);
	run->entry = run->end = walk->frame;
}

/* Finds the first run of the thread. A global function, so that the verifier checks it once. */
__weak __noinline int mixed_begin(struct walk *walk, struct process *process)
{
	struct python_walk steps = { .walk = walk, .process = process };
	struct python_run *run;
	__u64 state;

	if (!walk || !process)
		return 0;
	run = &walk->run;
	*run = (struct python_run){ .left = MIXED_FRAMES_MOST };
	state = knows_python(process) ? python_thread_state(walk, &process->python) : 0;
	if (!state && knows_python(process))
		count_stateless(process, walk, 0);
	if (!state)
		return 0;
	python_walk_begin(walk, process, 0);
	run->frame = frame_first(&process->python, state);
	if (has_cframes(&process->python.offsets))
		run->link = read_word(state + process->python.offsets.tstate_frame);
	run_find(&steps, run);
	return 0;
}

static __always_inline void clear_bit(__u64 bits[2], __u32 nr)
{
	bits[nr / 64 & 1] &= ~(1ULL << nr % 64);
}

/* The frame behind a run: with an entry among the frames that one is not of Python code. */
static __always_inline __u64 behind_run(struct python_walk *walk, const struct python_run *run)
{
	const struct python_offsets *offsets = &walk->process->python.offsets;

	return has_cframes(offsets) ? run->end : run_word(walk, run->end + offsets->frame_back);
}

/*
 * Puts the next run into the traceback, or all that are left (is_rest), from frame total_nframe on, where the C frame
 * may be that runs it. Then finds the next run.
 */
__weak __noinline int mixed_take_run(struct walk *walk, struct process *process, __u32 is_rest)
{
	struct python_walk steps = { .walk = walk, .process = process };
	struct python_run *run;
	__u32 nr;

	if (!walk || !process)
		return 0;
	run = &walk->run;
	if (!knows_python(process))
		return 0;
	nr = walk->traceback.total_nframe;
	if (nr < TRACEBACK_LIMIT_MAX && !is_rest) {
		clear_bit(walk->traceback.guessed, nr);
		clear_bit(walk->traceback.exact, nr);
	}
	steps.frame = run->frame;
	nr = frames_walk(&steps, is_rest ? 0 : run->end, run->left);
	run->left -= nr < run->left ? nr : run->left;
	run->frame = !is_rest && run->end && steps.frame == run->end ? behind_run(&steps, run) : 0;
	run->entry = run->end = 0;
	if (run->frame)
		run_find(&steps, run);
	walk->window_words = 0; /* it has had frames of Python code */
	walk->window_start = walk->frame.sp;
	return 0;
}

static __always_inline bool is_on_frame(__u64 address, __u64 sp, __u64 callers_sp)
{
	return address >= sp && address < callers_sp;
}

/* Fills walk->traceback; walk->frame and walk->salt are set. */
__weak __noinline int mixed_traceback_take(struct walk *walk, struct process *process)
{
	struct traceback *traceback;

	if (!walk || !process)
		return 0;
	traceback = &walk->traceback;
	traceback->end = 0;
	traceback->by_tables = true;
	traceback->guessed[0] = traceback->guessed[1] = 0;
	traceback->exact[0] = walk->frame.is_exact;
	traceback->exact[1] = 0;
	traceback->total_nframe = 0;
	mixed_begin(walk, process);
	tables_walk_begin(walk);
	for (__u32 step = 0; step < STEPS_MAX; step++) {
		__u32 nr = traceback->total_nframe;
		__u64 sp = walk->frame.sp;

		if (walk_one(walk, nr) != UNWIND_GOES_ON)
			break;
		if (walk->run.frame && is_on_frame(walk->run.entry, sp, walk->frame.sp))
			mixed_take_run(walk, process, false);
		else
			traceback->total_nframe = nr + 1;
	}
	if (walk->run.frame) {
		if (traceback->total_nframe < settings.traceback_limit)
			process_count_loss(process, LOSS_python_frames_unplaced);
		mixed_take_run(walk, process, true);
	}
	traceback->nframe = traceback->total_nframe < settings.traceback_limit ?
				    traceback->total_nframe : settings.traceback_limit;
	return 0;
}

#endif
