/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PACE_H
#define ALLOCSNAP_COLLECT_PACE_H

/*
 * What one process may take of the recorder's time by mapping code: arithmetic only. A process can make
 * and remove a hundred thousand mappings a second, and have as many as vm.max_map_count says.
 *
 * Costs are reckoned and not measured: so files that are opened and read for the first time are not in them,
 * and a test sees what a slow machine sees. All in nanoseconds.
 */

#include <stdbool.h>
#include <stdint.h>

#define PACE_LOOK_NS 10000000 /* for events, each time that the recorder looks */
#define PACE_EVENT_NS 20000 /* the file is opened, or looked for by its path if it is unmapped again */
#define PACE_REGION_NS 300 /* an entry of the kernel's side that is deleted */
#define PACE_MOVE_NS 5	   /* a mapping that makes room for another one */

#define PACE_LINE_NS 15000	/* a line of /proc/PID/maps that is read, and its file opened */
#define PACE_READING_SMALL_NS 5000000 /* at any time: what a library's probes wait for must not be put off */
#define PACE_READING_SHARE 20	/* between two readings: so many times what the last one took */
#define PACE_READING_LONGEST_NS 1000000000 /* a reading that must be is not older */

/* Zeroed: nothing has been taken yet. */
struct pace {
	uint64_t look; /* the one that event_ns is of */
	uint64_t event_ns;
	bool is_over; /* events of this look were passed over */
	uint64_t read_ns, next_read_ns;
};

/* Whether an event can be taken in at this look, which costs so much. */
bool pace_takes_event(struct pace *pace, uint64_t look, uint64_t cost_ns);

/* An event was passed over. True: it is the first one at this look. */
bool pace_passes_over(struct pace *pace, uint64_t look);

/* Whether /proc/PID/maps can be read now; must: a pass needs it. */
bool pace_reads(const struct pace *pace, uint64_t now_ns, bool must);

/* It was read, and has so many lines of code. */
void pace_has_read(struct pace *pace, uint64_t now_ns, uint64_t line_nr);

#endif
