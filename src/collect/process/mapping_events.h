/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_MAPPING_EVENTS_H
#define ALLOCSNAP_COLLECT_MAPPING_EVENTS_H

/*
 * What processes map as code, told by the kernel when they do it (perf's PERF_RECORD_MMAP2, of all
 * processes, in a ring for each processor that a thread of ours empties): so that a program has
 * names that is gone before anybody could read its /proc/PID/maps, and a library is noticed at once.
 *
 * What the kernel does not tell: unmapping, and what mremap() moves.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BUILD_ID_TEXT_MAX 41 /* 20 bytes in hexadecimal */

struct reason;

struct mapping_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	pid_t pid;
	bool is_exec; /* the process has called exec: what it had mapped is gone; nothing else is set */
	uint64_t skipped_nr; /* so many of its mappings from then on are not told of; nothing else is set */
	uint64_t start, end;
	uint64_t offset;     /* of start, in the file */
	uint64_t dev, inode; /* 0 where there is a build-id, or no file */
	char build_id[BUILD_ID_TEXT_MAX]; /* "" : none */
	const char *path; /* as the process sees it; "//anon" and the like for memory without a file */
};

struct mapping_events;

/* NULL and errno, with a line in *why. */
struct mapping_events *mapping_events__open(struct reason *why);

void mapping_events__close(struct mapping_events *events); /* NULL is allowed */

/*
 * Takes in all that has happened since the last time. 0 or -ENOMEM. Of one process MAPPING_EVENTS_EACH
 * mappings are kept at most until they are handed out, and one event that says how many more there were.
 */
#define MAPPING_EVENTS_EACH 4096
int mapping_events__collect(struct mapping_events *events);

/* The event is valid until it returns. 0 or a negative errno, which ends the handing out. */
typedef int (*mapping_event_fn)(void *what, const struct mapping_event *event);

/*
 * Calls back for each event that was collected and is not younger than until_ns, in the order of
 * their times, and forgets them.
 */
int mapping_events__hand_out(struct mapping_events *events, uint64_t until_ns, mapping_event_fn fn,
			     void *what);

/*
 * Calls back for each exec that has been told of by now and was not handed out, in no order. What is handed
 * out next stays the same.
 */
typedef void (*exec_event_fn)(void *what, pid_t pid, uint64_t time_ns);
int mapping_events__find_execs(struct mapping_events *events, exec_event_fn fn, void *what);

/* How many were dropped so far, as far as read, since nobody read them in time. */
uint64_t mapping_events__missed(struct mapping_events *events);

#endif
