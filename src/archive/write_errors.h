/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARCHIVE_WRITE_ERRORS_H
#define ALLOCSNAP_ARCHIVE_WRITE_ERRORS_H

/*
 * A time in which snapshots cannot be written, because the disk is full or read-only. It is reported when it begins
 * and when it is over. Zeroed: there is none.
 */

#include <stdbool.h>
#include <stdint.h>

struct write_errors {
	uint64_t lost; /* snapshots lost since it began */
	uint64_t lost_in_pass, saved_in_pass;
	int err;
};

/*
 * Counts a snapshot that could not be written. Returns true if that is news: there was no error before, or another
 * one.
 */
bool outage_count_lost(struct write_errors *write_errors, int err);

void outage_count_saved(struct write_errors *write_errors);

/*
 * Ends a pass. Returns how many snapshots were lost if the outage is over, otherwise 0. It is over if the pass wrote
 * snapshots and none failed. So one process with a broken folder is not reported again and again.
 */
uint64_t write_errors_end_pass(struct write_errors *write_errors);

#endif
