/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_OUTAGE_H
#define ALLOCSNAP_ARCHIVE_OUTAGE_H

/*
 * A time in which snapshots cannot be written, since the disk is full or read-only: told when it begins,
 * and when it is over. Zeroed: all is well.
 */

#include <stdbool.h>
#include <stdint.h>

struct outage {
	uint64_t lost; /* snapshots, since it began */
	uint64_t lost_in_pass, saved_in_pass;
	int err;
};

/* One could not be written. Whether that is news: nothing was wrong before, or something else. */
bool outage_lost(struct outage *outage, int err);

void outage_saved(struct outage *outage);

/*
 * At the end of a pass. If it is over (of those of this pass all could be written, and there were any)
 * how many had been lost; else 0. So one process whose folder is broken is not told again and again.
 */
uint64_t outage_end_pass(struct outage *outage);

#endif
