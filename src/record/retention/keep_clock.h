/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_KEEP_CLOCK_H
#define ALLOCSNAP_ARCHIVE_KEEP_CLOCK_H

/*
 * The clock by which snapshots grow old. A wall clock that is set forward by a year makes every snapshot too old at
 * once, and a removal cannot be undone. So if the wall clock is ahead of the newest snapshot (at the start), or of
 * the time that has passed (later), this clock goes on from there for keep_ms. By then each earlier snapshot is
 * really that old, and the wall clock counts again. A wall clock that is set back counts at once. Snapshots can only
 * stay longer by this, never shorter.
 */

#include <stdint.h>

#define KEEP_CLOCK_STEP_MS 60000 /* a smaller difference is no step: clocks are corrected, recorders restarted */

struct keep_clock {
	uint64_t wall_ms, boot_ms; /* at the last look */
	uint64_t time_ms;	   /* the time by which snapshots grow old */
	uint64_t ahead_boot_ms;	   /* when the wall clock was last set forward, by boot_ms */
};

/* newest_ms: the time of the newest snapshot; 0: there is none. */
void keep_clock_begin(struct keep_clock *clock, uint64_t newest_ms, uint64_t wall_ms, uint64_t boot_ms);

/* boot_ms is from a clock that is never set, and that goes on while the machine sleeps. Returns time_ms. */
uint64_t keep_clock_look(struct keep_clock *clock, uint64_t keep_ms, uint64_t wall_ms, uint64_t boot_ms);

#endif
