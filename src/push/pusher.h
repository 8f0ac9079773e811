/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PUSH_PUSHER_H
#define ALLOCSNAP_PUSH_PUSHER_H

/* Snapshots as pprof, pushed to an endpoint: single files, a folder once, or a folder while it grows. */

#include <stdbool.h>
#include <stdint.h>

#include "push/push_endpoint.h"

struct pusher_options {
	struct push_endpoint_options endpoint;
	const char *service;   /* name of the service; NULL: the process's name */
	uint64_t waiting_most; /* more snapshots of a folder than this do not wait: the oldest are given up; 0: no limit */
};

struct push_counts {
	uint64_t pushed;
	uint64_t failures; /* attempts that failed, of which each is tried again */
	uint64_t rejected; /* snapshots that the endpoint does not take, or that cannot be read */
	uint64_t given_up; /* snapshots that too many others waited with, or that were removed while they waited */
	uint64_t waiting;
	bool is_failing;   /* the last attempt failed */
	bool has_unread;   /* some waiting snapshots could not be read at the last look */
	uint64_t is_up;	   /* 1: the process that pushes runs */
};

/* Pushes a file. The result is as of push_endpoint__send(), PUSH_REJECTED also if it is no snapshot. */
enum push_result push_file(struct push_endpoint *endpoint, const struct pusher_options *options, const char *path,
			   struct reason *why);

/*
 * Pushes what waits in a folder, and logs what goes wrong. Stops at the first failure of the endpoint, and between two
 * snapshots if end_fd becomes readable or is closed by its other end; -1: it has no such end. Returns 0, or a negative
 * errno with a line in *why if the queue cannot be read or noted.
 */
struct push_queue;
int push_waiting(struct push_endpoint *endpoint, const struct pusher_options *options, struct push_queue *queue,
		 int end_fd, struct push_counts *counts, struct reason *why);

struct push_watch {
	const char *folder;
	int end_fd; /* readable: the end */
	void (*after_pass)(const struct push_counts *counts, void *what);
	void *what;
};

/*
 * Does so again and again: every few seconds, or after a failure of any kind in ever longer intervals. Ends with a last
 * attempt of some seconds when end_fd is readable. Returns the last attempt's error, which is logged.
 */
int push_while_open(struct push_endpoint *endpoint, const struct pusher_options *options,
		    const struct push_watch *watch, struct push_counts *counts);

#endif
