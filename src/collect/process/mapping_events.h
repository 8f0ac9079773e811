/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_MAPPING_EVENTS_H
#define ALLOCSNAP_COLLECT_PROCESS_MAPPING_EVENTS_H

/*
 * Reports the code that processes map, as the kernel announces it (perf's PERF_RECORD_MMAP2 of all processes; a
 * thread of the recorder empties one ring for each processor). So frames have names even if the process ended
 * before its /proc/PID/maps could be read, and a new library is noticed at once.
 *
 * The kernel does not report unmapping, nor where mremap() moves a mapping.
 */

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping_events;
struct perf_event_header;
struct reason;

#define BUILD_ID_TEXT_MAX 41 /* 20 bytes in hexadecimal */

struct mapping_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	pid_t pid;
	bool is_exec; /* the process has called exec: its earlier mappings are gone; nothing else is set */
	uint64_t skipped_nr; /* number of its mappings from then on that are not reported; nothing else is set */
	uint64_t start, end;
	uint64_t offset;     /* of start, in the file */
	uint64_t dev, inode; /* 0 if there is a build-id, or no file */
	char build_id[BUILD_ID_TEXT_MAX]; /* "": none */
	const char *path; /* as the process sees it; "//anon" and the like for memory without a file */
};

/* NULL and errno on failure, with a line in *why. */
struct mapping_events *mapping_events__open(struct reason *why);

void mapping_events__close(struct mapping_events *events); /* NULL is allowed */

/*
 * Collects all events since the last call. 0 or -ENOMEM. Of each process at most MAPPING_EVENTS_EACH mappings are
 * kept until they are handed out; one event says how many more there were.
 */
#define MAPPING_EVENTS_EACH 4096
int mapping_events__collect(struct mapping_events *events);

/* The event is valid until the callback returns. 0, or a negative errno, which stops the handing out. */
typedef int (*mapping_event_fn)(void *what, const struct mapping_event *event);

/*
 * Calls fn for each collected event that is not younger than until_ns, in the order of their times, and forgets
 * these events. 0 or the negative errno that fn returned.
 */
int mapping_events__hand_out(struct mapping_events *events, uint64_t until_ns, mapping_event_fn fn,
			     void *what);

/* All events up to then had been collected at the last mapping_events__collect(). */
uint64_t mapping_events__collected_ns(const struct mapping_events *events);

/*
 * Calls fn for each exec reported by now that was not handed out yet, in no particular order. The next events
 * that are handed out stay the same. 0 or -ENOMEM.
 */
typedef void (*exec_event_fn)(void *what, pid_t pid, uint64_t time_ns);
int mapping_events__find_execs(struct mapping_events *events, exec_event_fn fn, void *what);

/* Number of events lost so far, as far as the rings have been read, because they were not read in time. */
uint64_t mapping_events__missed(struct mapping_events *events);

/*
 * A perf event of all processes, on each processor, and the ring that its records go to
 * (perf_event_open(2); include/uapi/linux/perf_event.h has the records).
 */

#define PERF_RECORD_BYTES_MAX (UINT16_MAX + 1) /* a record's size has 16 bits */

struct perf_ring {
	int fd; /* readable when the ring is half full */
	struct perf_event_mmap_page *page; /* its header says how far it is written and read; the records follow */
};

/* Zeroed: none. */
struct perf_rings {
	struct perf_ring *ring;
	size_t ring_nr, ring_alloc;
	char *record; /* the record that is being read */
};

/*
 * Called with a record, valid until the call returns. 0 consumes the record; 1 leaves it and all later ones in
 * its ring for the next time; a negative errno leaves it as well, and stops reading.
 */
typedef int (*perf_record_fn)(void *what, const struct perf_event_header *record);

#endif
