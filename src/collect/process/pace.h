/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_PACE_H
#define ALLOCSNAP_COLLECT_PROCESS_PACE_H

/*
 * Limits the time that the recorder spends on one process that maps code; arithmetic only. A process can make and
 * remove a hundred thousand mappings a second, and have as many as vm.max_map_count allows.
 *
 * The costs are fixed estimates, not measurements: so opening and reading a file for the first time is not
 * included, and tests see the same numbers on every machine. All are in nanoseconds.
 */

#include <stdbool.h>
#include <stdint.h>

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
