/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_HELPER_HELPER_H
#define ALLOCSNAP_HELPER_HELPER_H

/*
 * A process that is forked from this one, executes no program, and does what this one must not do itself: work that may
 * hang, that an input may take over, or that SIGKILL may not cut short.
 *
 *	recorder ── order, descriptors ──► helper: CHILD_FD is its end of the socket; 0, 1 and 2 are /dev/null
 *	  │   └──────── answer ◄─────────────┘
 *	  └ end_fd: readable when the helper has ended; its own descriptor of the recorder: when the recorder has
 *
 * A helper ends with its recorder, also after SIGKILL: because of that descriptor, or because the kernel kills it. The
 * socket alone would not do: other children of the recorder may keep the recorder's end open.
 *
 * Start a helper before there are threads, secrets, or BPF maps in memory: the helper would keep them. Who starts it ends
 * it, with helper__end(). Functions return 0 or a negative errno; -EPIPE: the helper has ended.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "helper/channel.h"

#define CHILD_FD 3 /* a helper's only descriptor besides /dev/null and the recorder's pidfd */

struct helper_plan {
	const char *name;  /* of the process; NULL: its parent's name */
	const char *shown; /* the command line that ps shows; NULL: its parent's */
	bool has_own_session; /* signals of a terminal or a shell to the recorder's group do not reach it */
	bool is_killed; /* the kernel kills it when the thread that started it ends: then it gets no descriptor of the recorder */
	int (*give_up)(void); /* gives up rights. NULL: it keeps them. With an error the helper exits */
	int (*work)(void *self, int recorder); /* the helper exits with what it returns */
	void *self;
};

struct helper {
	pid_t pid;	/* 0: no process */
	int end_fd;	/* pidfd; -1: no process */
	struct channel channel; /* the recorder's end */
};

/* After an error *ret is one that helper__end() takes. */
int helper__start(const struct helper_plan *plan, struct helper *ret);

bool helper__has_ended(const struct helper *helper);

/*
 * Closes the socket, sends the signal, and waits until the helper has ended. SIGCONT is for a helper that ends by itself:
 * another process may have stopped it. Returns the status of waitpid(), or a negative errno.
 */
int helper__end(struct helper *helper, int signal);

/* fork(); all signals are blocked in the child, so that it can set first how it handles them. */
pid_t helper_fork(void);

/* The status of waitpid(), or a negative errno. */
int helper_wait(pid_t pid);

/*
 * How long helpers may take: the recorder does nothing else meanwhile, and others can make many of them fail. Each failure
 * halves the time of what comes next; a minute makes up for one.
 */
struct patience {
	unsigned int failed_nr; /* minus one for each minute since */
	uint64_t failed_at_ns;
};

/* Returns how many minutes have passed since the last failure, or since the last such call. */
uint64_t patience_recover(struct patience *patience);

/* A failure; more than failed_most do not count. */
void patience_lose(struct patience *patience, unsigned int failed_most);

/* ---- in a child ---- */

/*
 * Waits until there is something to receive at CHILD_FD. False: the recorder, whose descriptor this is, has ended.
 */
bool child_has_order(int recorder);

#endif
