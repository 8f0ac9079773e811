/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_REMOTE_CALL_H
#define ALLOCSNAP_INJECT_REMOTE_CALL_H

/*
 * System calls that a stopped thread of another process makes for this one. Each returns into a chain of signal frames in
 * unused memory of its stack. The last frame gives the thread its registers and its signal mask back; the others make
 * calls before that, which take back what was done so far. So if this process is killed at any moment, the thread finishes
 * the call, takes back, and goes on by itself. PTRACE_SINGLESTEP would outlive this process; PTRACE_SYSCALL does not.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct call_gate;
struct reason;
struct stopped_thread;
struct stopped_threads;
struct target_maps;

struct remote_caller {
	const struct call_gate *gate;
	struct stopped_thread *thread; /* the one that makes the calls */
	int mem_fd;
	uint64_t until_ns; /* monotonic_now_ns(): a call is given up then */
	uint64_t room;	   /* in the process: unused memory at the deep end of its stack */
	uint64_t frame;	   /* in the room: where the next call returns to; 0: no frame is written yet */
	uint32_t frame_nr;
	uint32_t call_nr;  /* calls that were made */
	uint64_t mask;	   /* of the thread */
	bool is_away;	   /* the thread does not have its own registers and mask */
	bool is_stuck;	   /* a call did not begin, or is lost */
	bool is_lost;	   /* a call did not return: the thread is left to itself and to the frames */
};

/* Whether all threads have gone on by themselves after an injector was killed. 0 or -EAGAIN. */
int check_no_open_call(const struct stopped_threads *threads, const struct target_maps *maps, const struct call_gate *gate,
		       struct reason *why);

/*
 * 0; -EBUSY: no thread can make calls at this moment, but soon one may; -EAGAIN, -ENOTSUP. mem_fd stays the caller's.
 */
int remote_caller_choose(struct stopped_threads *threads, const struct target_maps *maps, const struct call_gate *gate,
			 int mem_fd, struct remote_caller *ret, struct reason *why);

/* Gives a stopped thread its registers anew: at once, or when it has made its last call. 0 or -EAGAIN */
int remote_caller_set_registers(struct remote_caller *caller, struct stopped_thread *thread);

/* The room for texts that calls read: an address in the process. 0 or -EIO. */
int remote_caller_put(struct remote_caller *caller, const void *bytes, uint64_t length, uint64_t *ret_address);

/* Returns what the call returned, negative errors included; -EIO, too, if it could not be made. */
long remote_call(struct remote_caller *caller, long number, const uint64_t arguments[6]);

#define REMOTE_CALL(caller, number, ...) remote_call((caller), (number), (const uint64_t[6]){ __VA_ARGS__ })

#define REMOTE_UNDO_MAX 24

/*
 * If this process is killed during the next call or later, the thread makes this call before it goes on, and before
 * earlier undos. At most REMOTE_UNDO_MAX of them, forgotten ones included. 0 or -EIO.
 */
int remote_caller_undo(struct remote_caller *caller, long number, const uint64_t arguments[6]);

/* From the next call on no undo holds any more. */
void remote_caller_forget_undos(struct remote_caller *caller);

/* -EAGAIN: calls have failed because the thread did not run. Otherwise 0. */
int check_caller_ran(const struct remote_caller *caller, struct reason *why);

/* Gives the thread its registers and its mask back, and leaves the room as it was. */
void remote_caller_end(struct remote_caller *caller);

/*
 * Work that stops the threads of another process runs in a child of this one. The child has a session of its own, and the
 * kernel ends it TRACER_LIMIT_NS after it began, or when this process ends. So Ctrl-Z, SIGSTOP, a frozen control group, a
 * debugger or a quota of CPU time, for this process or for the child, hold no thread of the other process for longer: when
 * a tracer ends, its tracees go on. (A control group of version 1 is an exception: what is frozen there cannot be ended.)
 */

#define TRACER_LIMIT_NS SECOND_NS
/* The work gives up what takes longer, so that it can still say why. */
#define TRACER_PATIENCE_NS (TRACER_LIMIT_NS - SECOND_NS / 10)

/*
 * Returns what the work returned; -ETIMEDOUT: it was ended before. What the work writes to *outcome arrives here, up to the
 * moment at which it ended; all else that it changes does not. attend() is called here meanwhile, unless it is NULL.
 */
int run_as_tracer(int (*work)(void *argument, void *outcome), void (*attend)(void *argument), void *argument, void *outcome,
		  size_t outcome_bytes);

/* In a tracer: its life begins anew, as all threads have run until now. 0 or -errno. */
int tracer_renew(void);

/* After -ETIMEDOUT: says why, and returns lived_ns, the time since the call. */
uint64_t tracer_has_ended(uint64_t lived_ns, struct reason *why);

#endif
