/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_REMOTE_CALL_H
#define ALLOCSNAP_COLLECT_INJECT_REMOTE_CALL_H

/*
 * System calls that a stopped thread of another process makes for this one. Each returns into a signal frame that
 * gives the thread its registers and its signal mask back. So if this process is killed amid a call, the thread
 * finishes the call and goes on by itself. PTRACE_SINGLESTEP would outlive this process; PTRACE_SYSCALL does not.
 */

#include <stdbool.h>
#include <stdint.h>

struct call_gate;
struct reason;
struct stopped_thread;
struct stopped_threads;
struct target_maps;

struct remote_caller {
	const struct call_gate *gate;
	struct stopped_thread *thread; /* the one that makes the calls */
	int mem_fd;
	uint64_t room;	/* in the process: unused memory at the deep end of its stack */
	uint64_t frame; /* in the room; 0: not written yet */
	uint64_t mask;	/* of the thread */
	bool is_lost;	/* a call did not return: the thread cannot be used any more */
};

/* 0 or -EAGAIN. mem_fd stays the caller's. */
int remote_caller_choose(struct stopped_threads *threads, const struct target_maps *maps, const struct call_gate *gate,
			 int mem_fd, struct remote_caller *ret, struct reason *why);

/* Makes the frame anew, after the thread's registers were changed. */
void remote_caller_renew(struct remote_caller *caller);

/* The room for texts that calls read: an address in the process. 0 or -EIO. */
int remote_caller_put(struct remote_caller *caller, const void *bytes, uint64_t length, uint64_t *ret_address);

/* Returns what the call returned, negative errors included; -EIO, too, if it could not be made. */
long remote_call(struct remote_caller *caller, long number, const uint64_t arguments[6]);

#define REMOTE_CALL(caller, number, ...) remote_call((caller), (number), (const uint64_t[6]){ __VA_ARGS__ })

/* Leaves the room as it was. */
void remote_caller_end(struct remote_caller *caller);

#endif
