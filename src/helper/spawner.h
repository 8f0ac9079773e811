/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_HELPER_SPAWNER_H
#define ALLOCSNAP_HELPER_SPAWNER_H

/*
 * The helper that forks workers: the first one, and each replacement. The recording process cannot fork a worker when it
 * needs one: by then it has threads, and BPF maps in its memory. So it forks this small process before all that. The
 * spawner reads nothing but orders.
 *
 *	recorder ──── order: an end of a socket ────► spawner ── fork ──► worker: CHILD_FD is that end
 *	     └──────────────── orders, descriptors, answers ────────────────┘
 *
 * A worker ends with the spawner, and the spawner with the recorder. Functions return 0 or a negative errno.
 */

#include "helper/helper.h"

struct spawner_plan {
	struct helper_plan spawner; /* its name, its command line, and what it gives up; workers begin with what it keeps */
	const char *name; /* of a worker */
	int (*work)(const void *self); /* a worker exits with what it returns */
	const void *self;
	unsigned int worker_most; /* 1: a new worker is forked when the one before has been killed; more: each ends by itself */
};

struct spawner {
	struct helper helper;
	bool owes_answer; /* an order whose answer did not come in time */
};

struct hired {
	int fd; /* the recorder's end of the socket */
	pid_t pid;
	int status; /* of the worker that was killed for it, as from waitpid(); -1: there was no worker */
};

int spawner__start(struct spawner *spawner, const struct spawner_plan *plan);

/* Gets a new worker before until_ns (monotonic_now_ns()). -EAGAIN: there can be no more. */
int spawner__hire(struct spawner *spawner, uint64_t until_ns, struct hired *ret);

/* Waits until the spawner has ended. Workers that hang may end later. */
void spawner__stop(struct spawner *spawner);

#endif
