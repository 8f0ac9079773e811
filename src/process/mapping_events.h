/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_MAPPING_EVENTS_H
#define ALLOCSNAP_PROCESS_MAPPING_EVENTS_H

/*
 * Reports the code that processes map, as the kernel announces it (perf's PERF_RECORD_MMAP2 of all processes; a
 * thread of the recorder empties one ring for each processor). So frames have names even if the process ended
 * before its /proc/PID/maps could be read, and a new library is noticed at once.
 *
 * The kernel does not report unmapping, nor where mremap() moves a mapping.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping_events;
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
 * Limits the time that the recorder spends on one process that maps code; arithmetic only. A process can make and
 * remove a hundred thousand mappings a second, and have as many as vm.max_map_count allows.
 *
 * The costs are fixed estimates, not measurements: so opening and reading a file for the first time is not
 * included, and tests see the same numbers on every machine. All are in nanoseconds.
 */

#define PACE_LOOK_NS 10000000 /* for events, in each step of the event loop */
#define PACE_EVENT_NS 20000 /* to open the file, or to find it by its path if it has been unmapped */
#define PACE_REGION_NS 300 /* to delete one entry on the kernel side */
#define PACE_MOVE_NS 5	   /* to move one mapping, so that another one has room */

#define PACE_LINE_NS 15000	/* to read one line of /proc/PID/maps and open its file */
#define PACE_READING_SMALL_NS 5000000 /* a reading this cheap is always allowed: it must not delay a library's probes */
#define PACE_READING_SHARE 20	/* the pause after a reading, as a multiple of its cost */
#define PACE_READING_LONGEST_NS 1000000000 /* when a pass needs the mappings, the last reading is at most this old */

/* Zeroed: no time spent yet. */
struct pace {
	uint64_t look; /* the event loop step that event_ns counts */
	uint64_t event_ns;
	bool is_over; /* an event of this step was skipped, and so are the rest */
	uint64_t read_ns, next_read_ns;
};

/* Whether this step still has time for an event of this cost; if so, charges it. */
bool pace_takes_event(struct pace *pace, uint64_t look, uint64_t cost_ns);

/* Notes that an event was skipped. True for the first one in this step. */
bool pace_passes_over(struct pace *pace, uint64_t look);

/* Whether /proc/PID/maps may be read now; must: a snapshot pass needs it. */
bool pace_reads(const struct pace *pace, uint64_t now_ns, bool must);

/* Notes that it was read, with this many lines of code. */
void pace_has_read(struct pace *pace, uint64_t now_ns, uint64_t line_nr);

#endif
