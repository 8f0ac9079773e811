/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_MIXED_BPF_H
#define ALLOCSNAP_PYTHON_MIXED_BPF_H

/*
 * Tracebacks with frames of both: those of C code, and in the place of each C frame that runs the interpreter the
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
 * tells which C frame that is, whatever the function is called and however a compiler has divided it.
 *
 *	3.12 on: an interpreter's frame of which C code is the owner (owner_shim), behind the last frame of the run
 *	3.11: a struct _PyCFrame, which has the first frame of its run, and leads to the next struct
 *	until 3.10: nothing
 */

#include "python/frames.bpf.h"

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
